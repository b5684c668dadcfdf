import os

import pytest
from tool import Tool

os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def tool():
    tool = Tool()
    yield tool
    tool.close()

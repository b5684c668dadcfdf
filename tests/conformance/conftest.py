import os

import pytest
import rotation
from tool import Tool

os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def tool():
    tool = Tool()
    yield tool
    tool.close()


def pytest_collection_modifyitems(config, items):
    if os.environ.get("PACKTRAIN_CASES") != "rotating":
        return
    keep = rotation.chosen([item.name for item in items], rotation.turn_of(rotation.commit_here()))
    config.hook.pytest_deselected(items=[item for item, kept in zip(items, keep, strict=True) if not kept])
    items[:] = [item for item, kept in zip(items, keep, strict=True) if kept]

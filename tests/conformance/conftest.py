import os
import pathlib
import sys

import pytest
from tool import Tool

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import rotation  # the path is set above

os.environ["HF_HUB_OFFLINE"] = "1"
# Whole runs, and larger sizes: a fifth of the families. All families have their cases in float32.
SLOW_FILES = ("test_bfloat16.py", "test_runs.py", "test_text_towers.py")
NUM_PARTS = 5


@pytest.fixture(scope="session")
def tool():
    tool = Tool()
    yield tool
    tool.close()


def rule_of(file):
    return {"num_parts": NUM_PARTS} if file in SLOW_FILES else {"group_of": rotation.CASES_OF_A_FAMILY}


def pytest_collection_modifyitems(config, items):
    rotation.deselect(config, items, pathlib.Path(__file__).resolve().parent, rule_of)

import pathlib
import sys

import pytest
from runs import Lab

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import rotation  # the path is set above


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    made = Lab(tmp_path_factory.mktemp("lab"))
    yield made
    made.close()


def pytest_collection_modifyitems(config, items):
    rotation.deselect(config, items, pathlib.Path(__file__).resolve().parent)

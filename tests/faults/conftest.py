import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "distributed"))

import namespaces
import rotation  # the paths are set above
from runs import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    made = Lab(tmp_path_factory.mktemp("lab"))
    yield made
    made.close()


@pytest.fixture
def hosts(tmp_path):
    """Two network namespaces, for tests that do not make others."""
    made = namespaces.Namespaces(tmp_path, "east", "west")
    yield made
    made.close()


def pytest_collection_modifyitems(config, items):
    rotation.deselect(config, items, pathlib.Path(__file__).resolve().parent)

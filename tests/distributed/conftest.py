import pytest
from runs import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    made = Lab(tmp_path_factory.mktemp("lab"))
    yield made
    made.close()

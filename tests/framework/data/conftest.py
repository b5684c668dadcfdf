import pathlib
import sys

import pytest
from prepare_program import CORPUS, run_tool

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import rotation  # the path is set above

FAMILY_FILES = ("test_family_masks.py", "test_family_templates.py")
NUM_PARTS = 3


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    (folder / "corpus.txt").write_text("%\n".join(CORPUS))
    run_tool("train_tokenizer.py", folder / "corpus.txt", "--separator", "%", "--vocab-size", 300,
             "--out", folder / "out")
    return folder / "out"


@pytest.fixture(scope="session")
def oracle(tokenizer_folder):
    from transformers import AutoTokenizer  # takes seconds
    return AutoTokenizer.from_pretrained(tokenizer_folder)


def rule_of(file):
    return {"num_parts": NUM_PARTS} if file in FAMILY_FILES else None


def pytest_collection_modifyitems(config, items):
    rotation.deselect(config, items, pathlib.Path(__file__).resolve().parent, rule_of)

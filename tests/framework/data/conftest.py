import pytest
from prepare_program import CORPUS, run_tool


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

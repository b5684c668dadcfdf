"""Folders with files of several splits, which would mix held-out data into training data."""

import pytest
from prepare_program import write_lines  # noqa: F401  (makes packtrain_tools importable)

from packtrain_tools.errors import ToolError
from packtrain_tools.sources import files as files_module
from packtrain_tools.sources.files import list_files


@pytest.mark.parametrize("names", [
    ("train.jsonl", "val.jsonl"), ("training.csv", "eval.csv"), ("Train.csv", "Test.csv"),
    ("a-train-00000.parquet", "a-heldout-00000.parquet"), ("train.txt", "valid.txt"),
    ("wiki.train.txt", "wiki.test.txt.gz"), ("train/a.jsonl", "dev/a.jsonl"),
    ("split=train/x.parquet", "split=test/x.parquet"), ("train1.jsonl", "test1.jsonl"), ("data_train2.csv", "VAL2.csv"),
    ("train-1/a.jsonl", "test-1/a.jsonl"), ("train1.txt", "test1.txt"), ("train/a.txt", "validation/a.txt"),
    ("train/pos/0.txt", "test/neg/0.txt"), ("data/news-train/5", "data/news-test/6"), ("split=train/a.md", "split=Dev/a.md"),
    ("a.jsonl", "train/a.txt", "test/a.txt.gz")])
def test_files_of_several_splits_are_refused(tmp_path, names):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ToolError, match=r"holds files of the splits [a-z]+, [a-z]+"):
        files_module._folder_files(0, str(tmp_path), None, {}, set())


def test_words_in_names_are_no_splits(tmp_path):
    names = ("train.md", "test.md", "testimony.jsonl", "trainer.jsonl", "latest.txt", "evaluate.txt", "train1.jsonl",
             "latest1.jsonl", "contest.jsonl", "contest1.jsonl", "test1a.jsonl", "1test1st.jsonl", "devices2.jsonl")
    for name in names:
        (tmp_path / name).write_text("")
    assert len(list_files([str(tmp_path)])[0]) == len(names)


@pytest.mark.parametrize("names", [("dev/a.md", "test/a.md"), ("train/a.md", "other/test/a.md"), ("train/a.txt", "notes/b.txt"),
                                   ("my-train/a.txt", "our-test/a.txt"), ("training-notes/a.md", "test/a.md")])
def test_folders_of_texts_with_such_names_are_read(tmp_path, names):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("A heron.")
    assert len(list_files([str(tmp_path)])[0]) == len(names)

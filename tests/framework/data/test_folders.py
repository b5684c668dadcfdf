"""Tests which files of a folder are data for `packtrain prepare`: links, descriptions, copies, data sets of `datasets`."""

import gzip
import re

import pytest
from prepare_program import write_lines

from packtrain_tools.errors import ToolError
from packtrain_tools.sources.files import list_files


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "data"
    path.mkdir()
    write_lines(path / "a.jsonl", {"text": "a"})
    return path


def names_in(folder):
    return [file.path.removeprefix(f"{folder}/") for file in list_files([str(folder)])[0]]


def test_a_link_to_a_missing_file_is_refused(folder):
    (folder / "b.jsonl").symlink_to("/nonexistent/b.jsonl")
    with pytest.raises(ToolError, match=r"data/b.jsonl: is a link to /nonexistent/b.jsonl, which is missing\n"):
        list_files([str(folder)])


def test_a_link_to_nothing_that_is_no_data_is_left_out(folder):
    (folder / "README.md").symlink_to("/nonexistent")
    (folder / "weights.bin").symlink_to("/nonexistent")
    (folder / ".lock").symlink_to("host:1")
    assert names_in(folder) == ["a.jsonl"]


def test_links_to_folders_are_followed(folder, tmp_path):
    (tmp_path / "other").mkdir()
    write_lines(tmp_path / "other" / "b.jsonl", {"text": "b"})
    (folder / "part2").symlink_to("../other")
    assert names_in(folder) == ["a.jsonl", "part2/b.jsonl"]


def test_no_folder_is_read_twice_through_links(folder):
    (folder / "v1").mkdir()
    write_lines(folder / "v1" / "b.jsonl", {"text": "b"})
    (folder / "v1" / "up").symlink_to("..")
    (folder / "v2").symlink_to("v1")
    assert names_in(folder) == ["a.jsonl", "v1/b.jsonl"]


@pytest.mark.parametrize("name", ["license.jsonl", "changelog.jsonl", "README.jsonl", "readme.csv"])
def test_data_may_have_the_name_of_a_description(folder, name):
    (folder / name).write_text('{"text": "x"}\n' if name.endswith("jsonl") else "text\nx\n")
    assert sorted(names_in(folder)) == sorted(["a.jsonl", name])


def test_descriptions_that_are_left_out_are_named(folder, capsys):
    for name in ("README.md", "LICENSE", "CHANGELOG.rst", "license.txt", "Readme.html", "dataset_infos.json"):
        (folder / name).write_text("{}")
    assert names_in(folder) == ["a.jsonl"]
    assert capsys.readouterr().err == (
        f"packtrain prepare: {folder}: left out, as it describes data: CHANGELOG.rst, LICENSE, README.md, Readme.html, "
        "dataset_infos.json and 1 more\n")


def test_a_saved_data_set_below_a_folder_has_only_the_files_that_it_lists(folder):
    import datasets
    for name in ("one", "two"):
        saved = folder / "sets" / name
        datasets.Dataset.from_list([{"text": name}] * 4).save_to_disk(saved, num_shards=2)
        for cache in ("cache-173b353691a2ad71.arrow", "tmpx8_2k1ab"):
            (saved / cache).write_bytes((saved / "data-00000-of-00002.arrow").read_bytes())
    assert names_in(folder) == ["a.jsonl", *(f"sets/{name}/data-0000{part}-of-00002.arrow"
                                             for name in ("one", "two") for part in (0, 1))]


@pytest.mark.parametrize("names, fault", [
    (["a.jsonl", "./a.jsonl"], "a.jsonl and ./a.jsonl are the same data, which would be read twice"),
    (["a.jsonl", "b.jsonl"], "a.jsonl and b.jsonl are the same data"),
    (["a.jsonl", "a.jsonl"], "a.jsonl is named twice"),
    (["."], "./a.jsonl and ./b.jsonl are")])
def test_data_that_is_named_twice_is_refused(folder, monkeypatch, names, fault):
    (folder / "b.jsonl").symlink_to("a.jsonl")
    monkeypatch.chdir(folder)
    with pytest.raises(ToolError, match=re.escape(fault)):
        list_files(names)


def test_a_file_next_to_its_compressed_copy_is_reported(folder, capsys):
    (folder / "a.jsonl.gz").write_bytes(gzip.compress((folder / "a.jsonl").read_bytes()))
    assert names_in(folder) == ["a.jsonl", "a.jsonl.gz"]
    assert capsys.readouterr().err == (f"packtrain prepare: {folder}/a.jsonl and {folder}/a.jsonl.gz are all read: "
                                       "are they the same data?\n")

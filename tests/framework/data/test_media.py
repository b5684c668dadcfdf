"""Records with pictures, sounds or films: only text is learned, so they are refused."""

import json

import pytest
from prepare_program import run_tool, write_lines
from read_documents import PLAIN, documents, only, write_table

from packtrain_tools.sources.documents import Text

PICTURE = {"bytes": "iVBORw0KGgo=", "path": None}
RECORDS = [{"messages": PLAIN}, {"conversations": PLAIN}, {"prompt": "A", "completion": "B"},
           {"instruction": "A", "output": "B"}, {"text": "A"}, {"prompt": "A", "chosen": "B", "rejected": "C"},
           {"prompt": "A", "completion": "B", "label": True}]


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("name, value", [
    ("images", ["a.png"]), ("image", "a.png"), ("videos", [["a.mp4"]]), ("audios", ["a.wav"]),
    ("audio", {"array": [0.5], "sampling_rate": 16000}), ("Image", PICTURE), ("image_path", "a.png"), ("img", "a.png")])
def test_a_column_of_media_is_refused_by_name(tmp_path, record, name, value):
    fault = only(tmp_path, record | {name: value})
    assert f"'{name}' is " in fault and "only text is learned" in fault and f"--column {name}=" in fault


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("value", [None, [], "", "[]", {}, [None], {"bytes": None, "path": None}, " ", False])
def test_a_column_of_media_without_any_is_read(tmp_path, record, value):
    assert only(tmp_path, record | {"images": value}) == only(tmp_path, record)


def test_only_the_records_with_media_are_refused(tmp_path):
    rows = [{"text": "A", "images": []}, {"text": "B", "images": ["a.png"]}, {"text": "C"}]
    for path in (write_lines(tmp_path / "a.jsonl", *rows), write_table(tmp_path / "a.parquet", rows)):
        first, fault, last = documents(path)
        assert (first, last) == (Text(None, "A"), Text(None, "C")) and "'images' is a list" in fault


def test_columns_with_other_names_than_media_are_ignored(tmp_path):
    names = ("imagery", "audience", "video_title", "image_id", "images_removed")
    assert only(tmp_path, {"text": "A"} | dict.fromkeys(names, "x")) == Text(None, "A")


@pytest.mark.parametrize("name", ["images", "image", "audio", "videos"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_message_with_media_is_refused_by_its_turn(tmp_path, name, number):
    messages = [dict(message) for message in PLAIN]
    messages[number][name] = ["a.png"]
    fault = only(tmp_path, {"messages": messages})
    assert f"turn {number + 1}: '{name}' is a list" in fault and "only text is learned" in fault
    messages[number][name] = []
    assert not isinstance(only(tmp_path, {"messages": messages}), str)


def test_media_are_left_out_on_request(tmp_path, tokenizer_folder):
    path = write_lines(tmp_path / "a.jsonl", {"text": "The owl saw", "images": ["a.png"]})
    options = (path, "--tokenizer", tokenizer_folder, "--processes", 1, "--json", "--out", tmp_path / "out")
    assert f"{path}:1: 'images' is a list" in run_tool("prepare.py", *options, exit_code=65).stderr
    summary = json.loads(run_tool("prepare.py", *options, "--column", "images=").stdout)
    assert [store["num_examples"] for store in summary["stores"]] == [1]

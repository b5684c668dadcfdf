"""Texts that were probably damaged before they came to `prepare` are counted."""

import pytest
from encoded_rows import chunk_of
from family_templates import FAMILIES, make_folder

from packtrain_tools.prepare.counts import sentences

ASK = {"role": "user", "content": "How many?"}


def counts_of(tmp_path, *rows):
    folder = make_folder(FAMILIES["chatml"], "byte_level", tmp_path)
    chunk = chunk_of(folder, tmp_path, list(rows))
    assert not chunk.bad
    return {name: chunk.counts[name] for name in ("missing_values", "replaced_characters",
                                                      "media_placeholders") if name in chunk.counts}


@pytest.mark.parametrize("name", ["nan", "NaN", "None", "null", " nan\n"])
@pytest.mark.parametrize("row", [
    lambda text: {"prompt": "How many?", "completion": text}, lambda text: {"instruction": "Count", "output": text},
    lambda text: {"instruction": "Count", "input": text, "output": "Three"},
    lambda text: {"messages": [ASK, {"role": "assistant", "content": text}]},
    lambda text: {"messages": [{"role": "system", "content": text}, ASK, {"role": "assistant", "content": "Three"}]},
    lambda text: {"prompt": "How many?", "chosen": "Three", "rejected": text}])
def test_the_name_of_a_missing_value_is_counted(tmp_path, name, row):
    assert counts_of(tmp_path, row(name)) == {"missing_values": 1}


@pytest.mark.parametrize("row", [
    {"prompt": "nan", "completion": "Not a number"}, {"text": "nan"}, {"prompt": "A", "completion": "nan is no number"},
    {"messages": [ASK | {"content": "None"}, {"role": "assistant", "content": "none"}]}])
def test_other_texts_with_such_words_are_not_counted(tmp_path, row):
    assert counts_of(tmp_path, row) == {}


@pytest.mark.parametrize("row", [
    {"text": "caf\ufffd"}, {"prompt": "caf\ufffd \ufffd", "completion": "\ufffd"},
    {"messages": [ASK | {"content": "caf\ufffd"}, {"role": "assistant", "content": "a"}]},
    {"messages": [ASK, {"role": "assistant", "content": [{"type": "text", "text": "\ufffd"}]}]}])
def test_a_record_with_replaced_characters_is_counted_once(tmp_path, row):
    found = counts_of(tmp_path, row)
    assert found == {"replaced_characters": 1} and "U+FFFD" in sentences(found)[0]


@pytest.mark.parametrize("place", ["<image>", "<video>", "<|vision_start|><|image_pad|>", "[IMG]", "<start_of_image>"])
@pytest.mark.parametrize("row", [
    lambda text: {"messages": [ASK | {"content": f"{text}\nWhat?"}, {"role": "assistant", "content": "a"}], "images": []},
    lambda text: {"instruction": f"What is {text}?", "output": "a"}, lambda text: {"prompt": text, "completion": "b"}])
def test_a_record_with_the_place_of_a_picture_is_counted(tmp_path, place, row):
    assert counts_of(tmp_path, row(place)) == {"media_placeholders": 1}


@pytest.mark.parametrize("text", ["An <img> of HTML", "<imagery>", "image", "a [IMAGE] tag", "<images>"])
def test_other_tags_are_no_place_of_a_picture(tmp_path, text):
    assert counts_of(tmp_path, {"prompt": text, "completion": "b"}) == {}

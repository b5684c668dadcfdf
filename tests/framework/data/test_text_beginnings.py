"""Texts begin with the tokens that the tokenizer itself puts before a text, under any name."""

import json

import pytest
from encoded_rows import chunk_of, learned, rows_of, unlearned
from family_tokenizers import GLM4, LLAMA2, make_tokenizer, save_tokenizer
from tokenizers import Tokenizer, processors

from packtrain_tools.prepare.encoding import EncodingOptions

EOS = {"glm": "<|endoftext|>", "bert": "</s>", "bos": "</s>", "after": "</s>", "none": "</s>"}


def begun_tokenizer(kind: str) -> Tokenizer:
    made = make_tokenizer("byte_level", GLM4 if kind == "glm" else LLAMA2, "<s>" if kind == "bos" else None)
    single = {"glm": "[gMASK] <sop> $A", "bert": "<s> $A </s>", "after": "$A </s>"}.get(kind)
    if single is not None:
        names = [name for name in single.split() if name != "$A"]
        tokens = [(name, made.token_to_id(name)) for name in names]
        template = processors.TemplateProcessing(single=single, pair=None, special_tokens=tokens)
        made.post_processor = processors.Sequence([made.post_processor, template])
    return made


@pytest.fixture(params=EOS)
def begun(request, tmp_path):
    """A folder, its tokenizer and the ids that it puts before a text."""
    made = begun_tokenizer(request.param)
    save_tokenizer(tmp_path, made)
    settings = {"eos_token": EOS[request.param]} | ({"bos_token": "<s>"} if request.param == "bos" else {})
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    names = {"glm": ["[gMASK]", "<sop>"], "bert": ["<s>"], "bos": ["<s>"]}.get(request.param, [])
    return tmp_path, made, [made.token_to_id(name) for name in names], "".join(names)


def test_a_text_begins_as_the_tokenizer_begins_it(begun, tmp_path):
    folder, made, before, _ = begun
    [row] = rows_of(chunk_of(folder, tmp_path, [{"text": "a heron"}]))
    assert row[0][:-1] == before + made.encode("a heron", add_special_tokens=False).ids


def test_a_prompt_begins_as_the_tokenizer_begins_it(begun, tmp_path):
    folder, made, before, _ = begun
    [row] = rows_of(chunk_of(folder, tmp_path, [{"prompt": "the", "completion": " heron"}]))
    assert unlearned(row) == before + made.encode("the", add_special_tokens=False).ids
    assert learned(row)[:-1] == made.encode(" heron", add_special_tokens=False).ids


@pytest.mark.parametrize("begun", ["glm", "bert", "bos"], indirect=True)
def test_a_beginning_that_a_text_has_is_not_given_twice(begun, tmp_path):
    folder, *_, name = begun
    options = EncodingOptions(special_in_data="refuse")
    chunk = chunk_of(folder, tmp_path, [{"text": name + "a heron"}, {"text": "a heron"}], options)
    written, own = rows_of(chunk)
    assert written == own
    assert chunk.counts["begun_already"] == 1


@pytest.mark.parametrize("begun", ["glm"], indirect=True)
def test_a_text_that_ends_in_a_token_of_the_beginning_still_gets_its_end(begun, tmp_path):
    folder, made, *_ = begun
    chunk = chunk_of(folder, tmp_path, [{"text": "a<sop>"}])
    [row] = rows_of(chunk)
    assert row[0][-2:] == [made.token_to_id("<sop>"), made.token_to_id("<|endoftext|>")]
    assert "ended_already" not in chunk.counts

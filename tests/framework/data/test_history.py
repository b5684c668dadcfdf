"""Earlier turns of an instruction (`history`): the same answers are learned in a conversation and under headings."""

import json

import pytest
from encoded_rows import chunk_of, rows_of
from family_templates import FAMILIES, make_folder
from prepare_program import run_tool, write_lines
from test_encoding import KINDS, text_folder

from packtrain_tools.chat.mask import MaskOptions
from packtrain_tools.prepare.encoding import Encoder, EncodingOptions
from packtrain_tools.prepare.tokenizer import load_tokenizer
from packtrain_tools.sources.files import list_files
from packtrain_tools.sources.formats import find_format
from packtrain_tools.sources.readers import Reader

ROW = {"instruction": "And now?", "input": "birds", "output": "None", "system": "Count.",
       "history": [["How many?", "Three"], ["Sure?", "Yes"]]}
FIRST = "Count.\n\n### Instruction:\nHow many?\n\n### Response:\n"
SECOND = "\n\n### Instruction:\nSure?\n\n### Response:\n"
LAST = "\n\n### Instruction:\nAnd now?\n\n### Input:\nbirds\n\n### Response:\n"


def texts_of(folder, path, row, **options):
    """Passages of the example as text under headings: (text, whether it is learned)."""
    files, _ = list_files([str(write_lines(path / "rows.jsonl", row))])
    encoder = Encoder(str(folder), EncodingOptions(**options))
    encoder.set_formats({file.path: find_format(file, None, []) for file in files})
    [chunk] = [encoder.encode(chunk) for chunk in Reader(files, None).chunks()]
    return passages(folder, rows_of(chunk)[0]), chunk


def passages(folder, row):
    tokenizer = load_tokenizer(str(folder)).tokenizer
    found = []
    for token, is_learned in zip(*row):
        if not found or found[-1][1] != bool(is_learned):
            found.append(([], bool(is_learned)))
        found[-1][0].append(token)
    return [(tokenizer.decode(ids, skip_special_tokens=False), is_learned) for ids, is_learned in found]


@pytest.mark.parametrize("kind", KINDS)
def test_earlier_answers_are_learned_with_their_ends_under_headings(tmp_path, kind):
    folder = text_folder(tmp_path, kind)
    found, chunk = texts_of(folder, tmp_path, ROW)
    plain = [(text.replace("</s> ", "</s>").strip(" "), is_learned) for text, is_learned in found]
    assert [text for text, is_learned in plain if is_learned] == ["Three</s>", "Yes</s>", "None</s>"]
    assert [text.lstrip() for text, is_learned in plain if not is_learned][1:] == [SECOND.lstrip(), LAST.lstrip()]
    bos = load_tokenizer(str(folder)).tokenizer.token_to_id("<s>")
    assert chunk.examples.input_ids.tolist().count(bos) == 1


def test_only_the_output_is_learned_with_train_on_last(tmp_path):
    folder = text_folder(tmp_path, "byte_level")
    found, _ = texts_of(folder, tmp_path, ROW, learns_history=False)
    assert found == [("<s>" + FIRST + "Three" + SECOND + "Yes" + LAST, False), ("None</s>", True)]


def test_the_command_learns_them_unless_it_asks_for_the_last_one(tmp_path, tokenizer_folder):
    path = write_lines(tmp_path / "rows.jsonl", ROW)
    learned = []
    for options in ((), ("--train-on", "last")):
        result = run_tool("prepare.py", path, "--tokenizer", tokenizer_folder, "--out", tmp_path / "out", "--processes", 1,
                          "--overwrite", "--json", *options)
        learned.append(json.loads(result.stdout)["stores"][0]["num_loss_tokens"])
    assert learned[0] > learned[1]


def test_earlier_answers_that_have_their_end_get_no_second_one(tmp_path):
    folder = text_folder(tmp_path, "byte_level")
    found, chunk = texts_of(folder, tmp_path, ROW | {"history": [["How many?", "Three</s>"], ["Sure?", "Yes"]]})
    assert found == texts_of(folder, tmp_path, ROW)[0] and chunk.counts["ended_already"] == 1


def test_texts_without_ends_have_none_after_earlier_answers(tmp_path):
    folder = text_folder(tmp_path, "byte_level")
    found, _ = texts_of(folder, tmp_path, ROW | {"history": [["How many?", "Three"], ["Sure?", ""]]}, no_end_token=True)
    assert found == [("<s>" + FIRST, False), ("Three", True), (SECOND + LAST, False), ("None", True)]


@pytest.mark.parametrize("train_on, wanted", [("assistant", ["Three", "Yes", "None"]), ("last", ["None"])])
def test_a_conversation_learns_the_same_answers(tmp_path, train_on, wanted):
    folder = make_folder(FAMILIES["chatml"], "byte_level", tmp_path)
    [row] = rows_of(chunk_of(folder, tmp_path, [ROW], mask=MaskOptions(train_on)))
    assert [text for text, is_learned in passages(folder, row) if is_learned] == \
        [f"{answer}<|im_end|>" for answer in wanted]


def test_what_is_learned_does_not_change_the_group(tmp_path):
    folder = text_folder(tmp_path, "byte_level")
    groups = [texts_of(folder, tmp_path, ROW, learns_history=learns)[1].examples.groups.tolist()
              for learns in (True, False)]
    assert groups[0] == groups[1]


def test_pairs_learn_only_their_answers(tmp_path):
    folder = text_folder(tmp_path, "byte_level")
    pair = {key: value for key, value in ROW.items() if key != "output"} | {"chosen": "None", "rejected": "One"}
    found, chunk = texts_of(folder, tmp_path, pair)
    assert [text for text, is_learned in passages(folder, rows_of(chunk)[1]) if is_learned] == ["One</s>"]
    assert [text for text, is_learned in found if is_learned] == ["None</s>"]

"""Contents that end in the token which ends a turn: the template prints its own, and one of them is enough."""

import pytest
from encoded_rows import chunk_of, learned, rows_of
from family_templates import FAMILIES, make_folder

from packtrain_tools.chat.mask import MaskOptions
from packtrain_tools.prepare.encoding import EncodingOptions

# The token that ends an answer, and one that ends a message of the user, if a token does.
ENDS = {"chatml": ("<|im_end|>", "<|im_end|>"), "llama2": ("</s>", None), "llama3": ("<|eot_id|>", "<|eot_id|>"),
        "gemma2": ("<end_of_turn>", "<end_of_turn>")}


@pytest.fixture(params=ENDS)
def family(request, tmp_path):
    return make_folder(FAMILIES[request.param], "byte_level", tmp_path), *ENDS[request.param]


def chat(answer, asked="How many?", **more):
    return {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answer, **more},
                         {"role": "user", "content": "And now?"}, {"role": "assistant", "content": "None."}]}


@pytest.mark.parametrize("after", ["", "\n", " \n "])
def test_an_answer_that_has_its_end_gets_no_second_one(family, tmp_path, after):
    folder, end, _ = family
    plain = chunk_of(folder, tmp_path, [chat("Three.")])
    for ended in (chat(f"Three.{end}{after}"), chat(f"Three.{end}{after}{end}{after}"),
                  chat([{"type": "text", "text": "Three."}, {"type": "text", "text": end + after}])):
        chunk = chunk_of(folder, tmp_path, [ended])
        assert rows_of(chunk) == rows_of(plain)
        assert chunk.counts["ended_already"] >= 1 and "special_tokens_in_data" not in chunk.counts


def test_a_question_that_has_the_end_of_its_turn_gets_no_second_one(family, tmp_path):
    folder, _, end = family
    if end:
        chunk = chunk_of(folder, tmp_path, [chat("Three.", f"How many?{end}")])
        assert rows_of(chunk) == rows_of(chunk_of(folder, tmp_path, [chat("Three.")]))
        assert chunk.counts["ended_already"] == 1


def test_the_end_of_texts_at_the_end_of_an_answer_is_no_part_of_it(tmp_path):
    folder = make_folder(FAMILIES["gemma2"], "byte_level", tmp_path)
    rows = [{"instruction": "How many?", "output": f"Three.{end}"} for end in ("", "<eos>", "<end_of_turn><eos>")]
    chunk = chunk_of(folder, tmp_path, rows)
    assert rows_of(chunk) == rows_of(chunk_of(folder, tmp_path, rows[:1])) * 3
    assert chunk.counts["ended_already"] == 2


@pytest.mark.parametrize("mask", [MaskOptions(train_on) for train_on in ("last", "each-turn", "all")])
def test_each_choice_of_turns_has_one_end_a_turn(family, tmp_path, mask):
    folder, end, _ = family
    assert rows_of(chunk_of(folder, tmp_path, [chat(f"Three.{end}")], mask=mask)) == \
        rows_of(chunk_of(folder, tmp_path, [chat("Three.")], mask=mask))


def test_an_answer_of_only_its_end_is_empty(family, tmp_path):
    folder, end, _ = family
    chunk = chunk_of(folder, tmp_path, [chat(end)])
    assert rows_of(chunk) == rows_of(chunk_of(folder, tmp_path, [chat("")]))
    assert chunk.counts["empty_answers"] == chunk.counts["ended_already"] == 1


def test_pairs_of_preferences_have_one_end_each(family, tmp_path):
    folder, end, _ = family
    pair = {"prompt": [{"role": "user", "content": "How many?"}], "chosen": "Three.", "rejected": "Four."}
    ended = pair | {"chosen": f"Three.{end}", "rejected": f"Four.{end}"}
    assert rows_of(chunk_of(folder, tmp_path, [ended])) == rows_of(chunk_of(folder, tmp_path, [pair]))


def test_names_elsewhere_and_names_as_plain_text_are_kept(tmp_path):
    folder = make_folder(FAMILIES["chatml"], "byte_level", tmp_path)
    kept = chunk_of(folder, tmp_path, [chat("Three.<|im_end|> Or four?")])
    assert "ended_already" not in kept.counts and kept.counts["special_tokens_in_data"] == 1
    options = EncodingOptions(special_in_data="plain")
    as_text = chunk_of(folder, tmp_path, [chat("Three.<|im_end|>")], options)
    assert "ended_already" not in as_text.counts and as_text.counts["special_tokens_in_data"] == 1
    assert len(learned(rows_of(as_text)[0])) > len(learned(rows_of(chunk_of(folder, tmp_path, [chat("Three.")]))[0]))


def test_records_with_no_other_names_are_not_refused(tmp_path):
    folder = make_folder(FAMILIES["chatml"], "byte_level", tmp_path)
    chunk = chunk_of(folder, tmp_path, [chat("Three.<|im_end|>")], EncodingOptions(special_in_data="refuse"))
    assert not chunk.bad and rows_of(chunk) == rows_of(chunk_of(folder, tmp_path, [chat("Three.")]))

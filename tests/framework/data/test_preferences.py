"""Records of compared and judged answers: which formats are read, what is the prompt, and what is refused."""

import pytest
from read_documents import documents, only, write_table
from prepare_program import write_lines

from packtrain_tools.chat.conversations import Conversation
from packtrain_tools.chat.reshape import Reshaping
from packtrain_tools.errors import ToolError
from packtrain_tools.sources.columns import format_of_columns, has_margins
from packtrain_tools.sources.documents import Instruction, Role, Text
from packtrain_tools.sources.formats import Reading

ASK = {"role": "user", "content": "How many?"}
THREE = {"role": "assistant", "content": "Three."}
MANY = {"role": "assistant", "content": "Many."}
AGAIN = {"role": "user", "content": "Sure?"}
YES = {"role": "assistant", "content": "Yes."}
TEXTS = {"prompt": "How many?", "chosen": " Three.", "rejected": " Many."}
HUMAN = {"from": "human", "value": "How many?"}


def pair(document):
    (chosen, first), (rejected, second) = document.members
    assert (chosen, rejected) == (Role.CHOSEN, Role.REJECTED)
    return first, second


@pytest.mark.parametrize("row", [
    {"prompt": [ASK], "chosen": [THREE], "rejected": [MANY]},
    {"prompt": [ASK], "chosen": THREE["content"], "rejected": MANY["content"]},
    {"prompt": ASK["content"], "chosen": [THREE], "rejected": [MANY]},
    {"chosen": [ASK, THREE], "rejected": [ASK, MANY]},
    {"prompt": "How many? ", "chosen": [ASK, THREE], "rejected": [ASK, MANY], "messages": [ASK, THREE],
     "score_chosen": 8.5, "score_rejected": 7.0},
    {"prompt": [ASK], "chosen": [ASK, THREE], "rejected": [ASK, MANY]},
    {"conversations": [HUMAN], "chosen": {"from": "gpt", "value": "Three."},
     "rejected": {"from": "gpt", "value": "Many."}},
    {"messages": [ASK], "chosen": THREE, "rejected": MANY},
    {"chosen": '[{"role": "user", "content": "How many?"}, {"role": "assistant", "content": "Three."}]',
     "rejected": '[{"role": "user", "content": "How many?"}, {"role": "assistant", "content": "Many."}]'}])
def test_every_form_of_a_pair_of_messages_is_the_prompt_and_two_answers(tmp_path, row):
    chosen, rejected = pair(only(tmp_path, row))
    assert chosen == Conversation([ASK, THREE], None, [0.0, 1.0])
    assert rejected == Conversation([ASK, MANY], None, [0.0, 1.0])


def test_a_pair_of_texts_has_the_prompt_of_its_column(tmp_path):
    assert pair(only(tmp_path, TEXTS)) == (Text("How many?", " Three."), Text("How many?", " Many."))
    with_system = pair(only(tmp_path, TEXTS | {"system": "Count."}))
    assert with_system[0] == Text("Count.\n\nHow many?", " Three.")
    assert pair(only(tmp_path, TEXTS, reading=Reading(reshaping=Reshaping("Count.")))) == with_system


@pytest.mark.parametrize("common, chosen, rejected", [
    ("\n\nHuman: How many?\n\nAssistant:", " I saw three", " I saw many"),  # both answers begin with ' I'
    ("\n\nHuman: A?\n\nAssistant: B\n\nHuman: C?\n\nAssistant:", " I do", " I don't"),
    ("The owl saw", " three", " thirty")])
def test_the_prompt_of_two_texts_is_their_common_beginning_up_to_the_answer(tmp_path, common, chosen, rejected):
    read = pair(only(tmp_path, {"chosen": common + chosen, "rejected": common + rejected}))
    assert read == (Text(common, chosen), Text(common, rejected))


@pytest.mark.parametrize("name", ["question", "input", "problem"])
def test_texts_next_to_a_prompt_of_another_name_are_refused_and_advised(tmp_path, name):
    row = {name: "What is 2 + 2?", "chosen": "The answer is four", "rejected": "The answer is five"}
    assert f"(--column prompt={name} reads it as the prompt" in only(tmp_path, row)
    read = pair(documents(tmp_path / "a.jsonl", renamed=[("prompt", name)])[0])
    assert read == (Text("What is 2 + 2?", "The answer is four"), Text("What is 2 + 2?", "The answer is five"))
    left_out = pair(documents(tmp_path / "a.jsonl", renamed=[(name, "")])[0])
    assert left_out[0] == Text("The answer is", " four")


def test_a_column_that_repeats_the_prompt_of_two_texts_is_no_fault(tmp_path):
    row = {"question": "A?", "chosen": "\n\nHuman: A?\n\nAssistant: B", "rejected": "\n\nHuman: A?\n\nAssistant: C"}
    assert pair(only(tmp_path, row))[0] == Text("\n\nHuman: A?\n\nAssistant:", " B")


def test_instructions_with_two_answers_are_pairs(tmp_path):
    row = {"instruction": "Count", "input": "birds", "chosen": "Three.", "rejected": "Many.", "system": "Be brief.",
           "history": [["A", "B"]]}
    chosen, rejected = pair(only(tmp_path, row))
    assert chosen == Instruction("Be brief.", "Count", "birds", "Three.", history=(("A", "B"),))
    assert rejected.output == "Many."


def test_conversations_that_part_early_have_all_their_later_turns_as_answers(tmp_path):
    row = {"chosen": [ASK, THREE, AGAIN, YES], "rejected": [ASK, MANY, AGAIN, YES]}
    chosen, _ = pair(only(tmp_path, row))
    assert chosen.asked == [0.0, 1.0, None, 1.0]
    later = {"chosen": [ASK, THREE, AGAIN, YES], "rejected": [ASK, THREE, AGAIN, MANY]}
    assert pair(only(tmp_path, later))[0].asked == [0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("row", [
    {"prompt": [ASK], "completion": [THREE]}, {"messages": [ASK, THREE]},
    {"conversations": [HUMAN, {"from": "gpt", "value": "Three."}]}])
@pytest.mark.parametrize("label, role", [(True, Role.DESIRABLE), (False, Role.UNDESIRABLE)])
@pytest.mark.parametrize("name", ["label", "kto_tag"])
def test_every_form_of_a_judged_answer_is_its_prompt_and_the_answer(tmp_path, row, label, role, name):
    assert only(tmp_path, row | {name: label}).members == (
        (role, Conversation([ASK, THREE], None, [0.0, 1.0])),)


def test_a_judged_answer_may_follow_an_instruction(tmp_path):
    row = {"instruction": "Count", "input": "birds", "output": "Three.", "system": "Be brief.", "kto_tag": True}
    assert only(tmp_path, row).members == ((Role.DESIRABLE, Instruction("Be brief.", "Count", "birds", "Three.")),)
    assert "'output' has an empty answer" in only(tmp_path, row | {"output": " "})
    form = format_of_columns([*row, "prompt", "completion"], None, [], is_judged=True)
    assert not {"instruction", "input", "output"} & set(form.columns), "the prompt counts"


def test_a_table_of_judged_answers_is_recognised_by_its_first_row(tmp_path):
    rows = [{"prompt": "A", "completion": "B", "label": True}, {"prompt": "A", "completion": "C", "label": False}]
    roles = [document.members[0][0] for document in documents(write_table(tmp_path / "a.parquet", rows))]
    assert roles == [Role.DESIRABLE, Role.UNDESIRABLE]


@pytest.mark.parametrize("content", [
    "prompt,completion,kto_tag\nA,B,True\nA,C,False\n", "kto_tag,prompt,completion\n1,A,B\n0,A,C\n",
    "prompt,completion,kto_tag\nA\nA,B,TRUE\nA,C,false\n"])
def test_rows_with_a_kto_tag_are_recognised_by_the_first_row(tmp_path, content):
    path = tmp_path / "a.csv"
    path.write_text(content)
    found = [document for document in documents(path) if not isinstance(document, str)]
    assert [document.members for document in found] == [
        ((Role.DESIRABLE, Text("A", "B")),), ((Role.UNDESIRABLE, Text("A", "C")),)]


@pytest.mark.parametrize("row", [{"prompt": "A", "completion": "B"}, {"instruction": "A", "output": "B"}])
@pytest.mark.parametrize("name, value", [("label", False), ("kto_tag", 0), ("kto_tag", "false")])
def test_a_judgement_that_begins_after_the_first_record_is_refused(tmp_path, row, name, value):
    path = write_lines(tmp_path / "a.jsonl", row | {name: None}, row | {name: value})
    first, fault = documents(path)
    assert not isinstance(first, str) and f"holds a preference ('{name}' is true or false" in fault


@pytest.mark.parametrize("tag, role", [(1, Role.DESIRABLE), ("false", Role.UNDESIRABLE)])
def test_a_kto_tag_is_a_judgement_in_any_form(tmp_path, tag, role):
    assert only(tmp_path, {"prompt": "A", "completion": "B", "kto_tag": tag}).members == ((role, Text("A", "B")),)


@pytest.mark.parametrize("name", ["chosen", "rejected"])
def test_a_file_with_one_half_of_pairs_is_refused_by_name(tmp_path, name):
    with pytest.raises(ToolError, match="in one record: this is half a pair"):
        documents(write_lines(tmp_path / "a.jsonl", {"prompt": "A", name: "B"}))


def test_labels_in_text_are_judgements_only_on_request(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("prompt,completion,label\nA,B,False\n")
    assert documents(path) == [Text("A", "B")]
    [judged] = documents(path, wanted="judged")
    assert judged.members == ((Role.UNDESIRABLE, Text("A", "B")),)
    path.write_text("prompt,completion,label\nA,B,news\n")
    assert "'label' is \"news\", wanted true or false" in documents(path, wanted="judged")[0]


@pytest.mark.parametrize("more, margin", [
    ({"margin": 2}, 2), ({"margin": -0.5}, -0.5), ({"score_chosen": 8.5, "score_rejected": 7.0}, 1.5),
    ({"margin": 3, "score_chosen": 8.5, "score_rejected": 7.0}, 3), ({"score_chosen": 8.5}, None), ({}, None)])
def test_a_margin_is_its_column_or_the_difference_of_two_scores(tmp_path, more, margin):
    row = TEXTS | more
    assert only(tmp_path, row).margin == margin
    assert has_margins(format_of_columns(list(row), None, [])) == (margin is not None)


@pytest.mark.parametrize("margin", ["NaN", "Infinity", "true", '"high"', "[1]", "1e31"])
def test_a_margin_that_is_no_finite_number_is_refused(tmp_path, margin):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"prompt": "A", "chosen": "B", "rejected": "C", "margin": {margin}}}\n')
    [fault] = documents(path)
    assert "'margin' is " in fault and "wanted a finite number" in fault


def test_all_pairs_of_a_file_have_a_margin_or_none_has(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", TEXTS | {"margin": 1}, TEXTS)
    assert documents(path)[1].startswith("has no margin, unlike the file's first pairs")
    late = write_lines(tmp_path / "b.jsonl", *[TEXTS] * 200, TEXTS | {"margin": 1})
    assert documents(late)[-1].startswith("has a margin, unlike the file's first pairs")
    assert documents(late, renamed=[("margin", "")])[-1].margin is None


@pytest.mark.parametrize("row, fault", [
    (TEXTS | {"rejected": None}, "'rejected' is null: this is half a pair"),
    (TEXTS | {"chosen": ""}, "'chosen' has an empty answer"),
    (TEXTS | {"rejected": " \n"}, "'rejected' has an empty answer"),
    (TEXTS | {"chosen": 3}, "'chosen' is 3, wanted text, a message or a list of messages"),
    (TEXTS | {"chosen": [THREE]}, "has text in one of 'chosen' and 'rejected', and messages in the other"),
    ({"chosen": "A b", "rejected": "C d"}, "do not begin with the same prompt"),
    ({"chosen": [THREE], "rejected": [MANY]}, "has answers without a prompt"),
    ({"prompt": [ASK], "chosen": [THREE], "rejected": [THREE | {"content": ""}]}, "'rejected' has an empty answer"),
    ({"chosen": [ASK, THREE], "rejected": [AGAIN, MANY]}, "the prompts of 'chosen' and 'rejected' are different: turn 1"),
    ({"chosen": [ASK, THREE], "rejected": [ASK, THREE, AGAIN, YES]}, "'chosen' has no answer of its own"),
    ({"prompt": "Other?", "chosen": [ASK, THREE], "rejected": [ASK, MANY]}, "'prompt' is not what the conversations"),
    ({"prompt": [AGAIN], "chosen": [ASK, THREE], "rejected": [ASK, MANY]}, "'prompt' is not what the conversations"),
    ({"prompt": [ASK], "chosen": [ASK, THREE], "rejected": [MANY]}, "one of 'chosen' and 'rejected' is a whole"),
    (TEXTS | {"tools": [{"type": "function", "function": {"name": "f"}}]}, "has tools, which only messages can call")])
def test_what_is_no_pair_is_refused_by_name(tmp_path, row, fault):
    assert fault in only(tmp_path, row)


def test_half_a_pair_among_pairs_is_refused_by_name(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", TEXTS, {"prompt": "A", "chosen": "B"})
    assert "wanted 'rejected' for the format pairs" in documents(path)[1]


@pytest.mark.parametrize("row, fault", [
    ({"messages": [ASK], "label": True}, "'messages' ends with a message of the user"),
    ({"prompt": "A", "completion": "", "label": True}, "'completion' has an empty answer"),
    ({"prompt": "A", "label": True}, "has 'prompt' and no 'completion'"), ({"label": True}, "has no answer")])
def test_what_is_no_judged_answer_is_refused_by_name(tmp_path, row, fault):
    assert fault in only(tmp_path, row, wanted="judged")


@pytest.mark.parametrize("chosen, rejected", [
    ("chosen_response", "rejected_response"), ("response_j", "response_k"), ("chosen", "reject")])
def test_other_names_of_the_answers_are_advised(tmp_path, chosen, rejected):
    path = write_lines(tmp_path / "a.jsonl", {"question": "A", chosen: "B", rejected: "C"})
    with pytest.raises(ToolError) as error:
        documents(path)
    assert f"--column rejected={rejected} --column prompt=question" in error.value.advice


@pytest.mark.parametrize("row, advice", [
    ({"text": "A", "label": True}, "--column label= leaves the column out. To learn it as an answer, write it as text"),
    ({"sentence": "A", "label": False}, "--column label= leaves the column out"),
    ({"question": "A", "answer": "B", "label": True}, "--column prompt=question --column completion=answer where"),
    ({"text": "A", "kto_tag": True}, "--column kto_tag= leaves the column out")])
def test_a_truth_next_to_no_answer_is_refused_and_the_remedy_works(tmp_path, row, advice):
    path = write_lines(tmp_path / "a.jsonl", row, row)
    for file in (path, write_table(tmp_path / "a.parquet", [row, row])):
        with pytest.raises(ToolError, match="is true or false, as of a judged answer, and none is an answer") as error:
            documents(file)
        assert advice in error.value.advice
    name = next(name for name in ("label", "kto_tag") if name in row)
    theirs = next(iter(row))
    assert documents(path, [(name, ""), ("text", theirs)]) == [Text(None, row[theirs])] * 2


def test_a_judged_answer_is_read_under_other_names_or_without_its_label(tmp_path):
    row = {"question": "A", "answer": "B", "label": False}
    names = [("prompt", "question"), ("completion", "answer")]
    assert only(tmp_path, row, renamed=names).members == ((Role.UNDESIRABLE, Text("A", "B")),)
    assert only(tmp_path, row, renamed=[*names, ("label", "")]) == Text("A", "B")

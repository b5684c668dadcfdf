"""What prepare refuses or counts of the prompts of preferences, and what their templates need."""

import chat_templates
import pytest
import tokenizers
from preference_stores import PAIRS, chats, make_chat_folder, prepare, store_of
from prepare_program import write_lines


@pytest.fixture(scope="module")
def chat_folder(tokenizer_folder, tmp_path_factory):
    return make_chat_folder(tokenizer_folder, tmp_path_factory.mktemp("chat"))


def test_texts_that_repeat_their_prompt_are_counted(tokenizer_folder, tmp_path):
    whole = {"prompt": "The owl", "chosen": "The owl saw", "rejected": "The owl ran"}
    _, result = store_of(tokenizer_folder, tmp_path, [whole, whole | {"rejected": " ran"}, PAIRS[0]])
    assert "Pairs whose two texts begin with the text of their prompt: 1." in result.stdout
    again = prepare(tokenizer_folder, tmp_path, tmp_path / "rows.jsonl", "--column", "prompt=", "--overwrite", exit_code=65)
    assert "rows.jsonl:2: 'chosen' and 'rejected' do not begin with the same prompt" in again.stderr


def test_the_advice_for_answers_of_several_turns_names_no_option_that_is_refused(chat_folder, tmp_path):
    (tmp_path / "chat.jinja").write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if loop.last and m.reasoning_content %}{{ m.reasoning_content }}{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    row = {"chosen": chats("saw"), "rejected": chats("ran")}
    for name, thought in (("chosen", "hm"), ("rejected", "so")):
        row[name][2] = row[name][2] | {"content": name, "reasoning_content": thought}
    result = prepare(chat_folder, tmp_path, write_lines(tmp_path / "rows.jsonl", row), "--chat-template",
                     tmp_path / "chat.jinja", exit_code=65)
    assert "leaves its reasoning out" in result.stderr and "--train-on" not in result.stderr
    assert "an answer of one turn is learned as it is asked for" in result.stderr


@pytest.mark.parametrize("row", [{"prompt": "", "chosen": "saw", "rejected": "ran"},
                                 {"prompt": "", "completion": "saw", "label": True}])
def test_an_empty_prompt_is_a_bad_line_because_no_token_predicts_the_first_one(tokenizer_folder, tmp_path, row):
    result = prepare(tokenizer_folder, tmp_path, write_lines(tmp_path / "rows.jsonl", row), exit_code=65)
    assert "rows.jsonl:1: has an empty prompt" in result.stderr


def test_pairs_of_messages_need_a_chat_template_and_say_how_to_give_one(tokenizer_folder, tmp_path):
    row = {"chosen": chats("saw"), "rejected": chats("ran")}
    result = prepare(tokenizer_folder, tmp_path, write_lines(tmp_path / "rows.jsonl", row), exit_code=65)
    assert "no chat template (--chat-template FILE gives one)" in result.stderr


def test_judged_instructions_become_conversations_where_there_is_a_template(chat_folder, tmp_path):
    (tmp_path / "chat.jinja").write_text(chat_templates.CHATML)
    row = {"instruction": "Count", "input": "birds", "output": "saw 3 birds", "kto_tag": False}
    store, _ = store_of(chat_folder, tmp_path, [row], "--chat-template", tmp_path / "chat.jinja")
    assert [member["role"] for member in store["groups"][0]["members"]] == ["undesirable"]
    example = store["examples"][0]
    oracle = tokenizers.Tokenizer.from_file(str(chat_folder / "tokenizer.json"))
    whole = oracle.decode(example["input_ids"], skip_special_tokens=False)
    assert whole == "<|im_start|>user\nCount\n\nbirds<|im_end|>\n<|im_start|>assistant\nsaw 3 birds<|im_end|>\n"

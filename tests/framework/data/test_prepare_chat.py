"""Conversations are rendered as transformers renders them. Only the assistant's turns are learned, with the tokens
that end them. A conversation that cannot be masked is refused."""

import json

import chat_templates
import pytest
import tokenizers
from prepare_program import dump, learned_text, run_tool, write_lines

from packtrain_tools.chat.mask import ChatMask, MaskOptions
from packtrain_tools.chat.template import ChatTemplate, load_chat_template
from packtrain_tools.chat.conversations import read_messages
from packtrain_tools.prepare.encoding import Encoder

USER_1 = {"role": "user", "content": "The owl? "}
USER_2 = {"role": "user", "content": "And the fox?"}
BIRDS_1 = {"role": "assistant", "content": "saw 3 birds"}
BIRDS_2 = {"role": "assistant", "content": "saw none"}
CHAT = [USER_1, BIRDS_1, USER_2, BIRDS_2]
THOUGHTFUL = [USER_1, BIRDS_1 | {"reasoning_content": "count"}, USER_2,
              BIRDS_2 | {"reasoning_content": "again"}]
TOOLS = [{"type": "function", "function": {"name": "count", "description": "birds",
                                           "parameters": {"type": "object", "properties": {}}}}]
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"type": "function", "function": {"name": "count", "arguments": {"of": "birds"}}}]}
ANSWER = {"role": "tool", "content": "3"}


@pytest.fixture(scope="module")
def folders(tokenizer_folder, tmp_path_factory):
    """A tokenizer's folder by the name of its template."""
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    tokenizer.add_special_tokens(chat_templates.SPECIAL_TOKENS)
    folders = {}
    for name, template in chat_templates.ALL.items():
        folder = folders[name] = tmp_path_factory.mktemp(name)
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(json.dumps({
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>",
            "eos_token": {"__type": "AddedToken", "content": "</s>", "special": True}}))
        (folder / "chat_template.jinja").write_text(template)
    return folders


@pytest.fixture(scope="module")
def oracles(folders):
    from transformers import AutoTokenizer
    return {name: AutoTokenizer.from_pretrained(folder) for name, folder in folders.items()}


@pytest.fixture
def render(folders):
    def render(name, conversation, train_on="assistant", allow_open_turns=False, options=None):
        encoder = Encoder(str(folders[name]))
        template = load_chat_template(str(folders[name]), None, encoder.settings, options or {})
        mask = ChatMask(template, MaskOptions(train_on, allow_open_turns=allow_open_turns),
                        encoder.special_tokens(), encoder.added_tokens())
        if isinstance(conversation, list):
            conversation = read_messages(conversation)
        rendered = [mask.render(each) for each in mask.divided(conversation)]
        return [each for each in rendered if each]

    return render


def learned(rendered):
    return [rendered.text[begin:end] for begin, end, _ in rendered.learned]


@pytest.mark.parametrize("name", chat_templates.ALL)
@pytest.mark.parametrize("chat", [CHAT, CHAT[:3], [USER_1, CALL, ANSWER, BIRDS_1], THOUGHTFUL],
                         ids=["chat", "asks", "calls", "thinks"])
@pytest.mark.parametrize("prompt", [False, True])
def test_templates_render_as_transformers_does(folders, oracles, name, chat, prompt):
    template = load_chat_template(str(folders[name]), None, Encoder(str(folders[name])).settings,
                                  {"unused": 1})
    tools = TOOLS if CALL in chat else None
    try:
        wanted = oracles[name].apply_chat_template(chat, tools=tools, tokenize=False,
                                                   add_generation_prompt=prompt)
    except Exception as error:
        with pytest.raises(ValueError) as caught:
            template.render(chat, tools, prompt)
        assert str(error) in str(caught.value)
    else:
        assert template.render(chat, tools, prompt).text == wanted


@pytest.mark.parametrize("name, turns", [
    ("chatml", ["saw 3 birds<|im_end|>", "saw none<|im_end|>"]),
    ("headers", ["saw 3 birds<|eot|>", "saw none<|eot|>"]),
    ("inst", [" saw 3 birds</s>", " saw none</s>"]),
    ("model_turns", ["saw 3 birds<end_of_turn>", "saw none<end_of_turn>"]),
    ("forgets_reasoning", ["saw 3 birds<|im_end|>", "saw none<|im_end|>"]),
    ("marked", ["saw 3 birds<|im_end|>", "saw none<|im_end|>"])])
def test_the_assistants_turns_are_learned_with_their_end(render, name, turns):
    [example] = render(name, CHAT)
    assert learned(example) == turns
    [example] = render(name, CHAT, "last")
    assert learned(example) == turns[1:]
    examples = render(name, CHAT, "each-turn")
    assert [learned(example) for example in examples] == [turns[:1], turns[1:]]
    [example] = render(name, [USER_1, BIRDS_1 | {"train": False}, USER_2, BIRDS_2])
    assert learned(example) == turns[1:]
    [example] = render(name, [USER_1, BIRDS_1 | {"weight": 1}, USER_2, BIRDS_2 | {"weight": 0}],
                       "last")
    assert learned(example) == turns[:1]
    assert "fox" not in example.text  # what follows teaches nothing


def test_calls_answers_and_reasoning_are_where_they_belong(render):
    chat = read_messages([USER_1, {**CALL, "reasoning": "look"}, ANSWER, BIRDS_1], TOOLS)
    [example] = render("chatml", chat)
    assert learned(example) == [
        '<think>look</think><tool_call>count {"of": "birds"}</tool_call><|im_end|>',
        "saw 3 birds<|im_end|>"]
    assert '"description": "birds"' in example.text


def test_reasoning_that_later_turns_remove_is_refused_where_it_would_be_learned_wrong(render):
    with pytest.raises(ValueError, match=r"turn 2 \(assistant\): the chat template leaves its "
                                         "reasoning out: 'count' .*--train-on each-turn or last"):
        render("forgets_reasoning", THOUGHTFUL)
    [example] = render("forgets_reasoning", THOUGHTFUL, "last")
    assert learned(example) == ["<think>again</think>saw none<|im_end|>"]
    assert "count" not in example.text
    first, second = render("forgets_reasoning", THOUGHTFUL, "each-turn")
    assert learned(first) == ["<think>count</think>saw 3 birds<|im_end|>"]
    assert second == example


@pytest.mark.parametrize("after, learned_end", [
    ("<end_answer><stop>", "<end_answer><stop>"), ("<end_answer>\n<stop>", "<end_answer>"),
    ("<end_answer>{{ '<stop>' if loop.last }}", "<end_answer>"), ("<stop>", "<stop>")])
def test_the_end_token_after_every_answer_belongs_to_the_answer(after, learned_end):
    source = "{%- for m in messages %}<role>{{ m.role }}|{% if m.role == 'assistant' %}{{ m.content }}" + after + \
        "{% else %}{{ m.content }}<stop>{% endif %}{% endfor %}{% if add_generation_prompt %}<role>assistant|{% endif %}"
    mask = ChatMask(ChatTemplate({"default": source}, {}, "test"), MaskOptions(), ["<role>", "<end_answer>", "<stop>"],
                    end_token="<stop>")
    rendered = mask.render(read_messages([USER_1, BIRDS_1, USER_1, BIRDS_1]))
    assert learned(rendered) == [BIRDS_1["content"] + learned_end] * 2


def test_each_turn_may_lose_what_another_example_learns_and_nothing_else():
    source = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + ('' if m.role == 'assistant' and " \
             "not loop.last else m.content) + '<|im_end|>' }}{% endfor %}" \
             "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    mask = ChatMask(ChatTemplate({"default": source}, {}, "test"), MaskOptions("each-turn"), ["<|im_end|>"])
    assert len([mask.render(each) for each in mask.divided(read_messages(CHAT))]) == 2
    [only] = mask.divided(read_messages([USER_1, BIRDS_1 | {"train": False}, USER_2, BIRDS_2]))
    with pytest.raises(ValueError, match=r"turn 2 \(assistant\): the chat template leaves its content out"):
        mask.render(only)


@pytest.mark.parametrize("name, chat, message", [
    ("opens_thought", CHAT, r"turn 4 \(assistant\): cannot be masked: the generation prompt is not "
                            "how it begins: '.*<think>' became '.*saw none"),
    ("open_turns", CHAT, r"turn 4 \(assistant\): ends in no special token"),
    ("headers", THOUGHTFUL, r"turn 2 \(assistant\): the chat template leaves its reasoning out"),
    ("marked", THOUGHTFUL, r"turn 2 \(assistant\): the chat template leaves its reasoning out"),
    ("model_turns", CHAT[1:], "the chat template refuses it: roles must alternate"),
    ("inst", [{"role": "system", "content": "Be."}, *CHAT], "refuses it: only user and assistant"),
    ("chatml", [{"role": "user", "content": "\ud800"}, BIRDS_1], "half of a surrogate pair")])
def test_what_cannot_be_masked_is_refused(render, name, chat, message):
    with pytest.raises(ValueError, match=message):
        render(name, chat)


def test_open_turns_are_taken_on_request_and_variables_reach_the_template(render):
    [example] = render("open_turns", CHAT, allow_open_turns=True)
    assert learned(example) == ["saw 3 birds\n", "saw none\n"]
    [example] = render("headers", CHAT, options={"bos_token": "[INST]"})
    assert example.text.startswith("[INST]<|start_header|>")


def test_a_turn_without_a_marked_passage_or_a_passage_of_others_is_refused(folders, render):
    path = folders["marked"] / "chat_template.jinja"
    template = path.read_text()
    try:
        path.write_text(template.replace("message.role == 'assistant'", "loop.index0 == 1"))
        with pytest.raises(ValueError, match=r"turn 4 \(assistant\): the chat template marks no passage"):
            render("marked", CHAT)
        path.write_text(template.replace("message.role == 'assistant'", "loop.index0 == 0"))
        with pytest.raises(ValueError, match=r"passage with generation that holds turn 1 \(user\)"):
            render("marked", CHAT)
    finally:
        path.write_text(template)


def test_a_conversation_without_an_answer_has_no_supervised_token(render):
    assert render("chatml", [USER_1]) == []
    assert render("chatml", [USER_1, BIRDS_1 | {"train": False}]) == []


@pytest.mark.parametrize("name", ["chatml", "headers", "inst", "model_turns", "marked"])
def test_stores_hold_the_ids_of_transformers_and_the_mask_of_the_turns(
        folders, oracles, tmp_path, name):
    chats = [{"messages": CHAT}, {"messages": [USER_2, {"role": "assistant", "content": "ünïcode 漢"}]}]
    source = write_lines(tmp_path / "a.jsonl", *chats)
    run_tool("prepare.py", source, "--tokenizer", folders[name], "--out", tmp_path / "store")
    examples = dump(tmp_path / "store")["examples"]
    for example, chat in zip(examples, chats, strict=True):
        wanted = oracles[name].apply_chat_template(chat["messages"], return_dict=True)
        assert example["input_ids"] == wanted["input_ids"]
    assert len([part for part in learned_text(oracles[name], examples[0]) if part]) == 2
    [answer] = [part for part in learned_text(oracles[name], examples[1]) if part]
    assert answer.strip().startswith("ünïcode 漢")
    assert answer.endswith(("<|im_end|>", "<|eot|>", "</s>", "<end_of_turn>"))


def test_a_conversation_that_cannot_be_masked_is_named_or_skipped(folders, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", {"messages": CHAT}, {"messages": THOUGHTFUL})
    arguments = [source, "--tokenizer", folders["forgets_reasoning"], "--out", tmp_path / "store"]
    result = run_tool("prepare.py", *arguments, exit_code=65)
    assert f"{source}:2: turn 2 (assistant): the chat template leaves its reasoning out" in result.stderr
    run_tool("prepare.py", *arguments, "--overwrite", "--skip-bad-lines", "--max-bad-fraction", 0.5)
    assert len(dump(tmp_path / "store")["examples"]) == 1
    run_tool("prepare.py", *arguments, "--overwrite", "--train-on", "each-turn")
    assert len(dump(tmp_path / "store")["examples"]) == 4


def test_conversations_need_a_template_and_instructions_take_it(
        tokenizer_folder, folders, tmp_path, oracles):
    chats = write_lines(tmp_path / "a.jsonl", {"messages": CHAT})
    result = run_tool("prepare.py", chats, "--tokenizer", tokenizer_folder, "--out",
                      tmp_path / "store", exit_code=64)
    assert "has no chat template, which conversations need" in result.stderr
    template = folders["inst"] / "chat_template.jinja"
    tasks = write_lines(tmp_path / "b.jsonl", {"instruction": "Add", "input": "1", "output": "2"})
    result = run_tool("prepare.py", tasks, "--tokenizer", folders["chatml"], "--out",
                      tmp_path / "inst", "--chat-template", template)
    assert "instructions become conversations" in result.stderr
    [example] = dump(tmp_path / "inst")["examples"]
    assert learned_text(oracles["inst"], example) == [None, " 2</s>"]
    assert (tmp_path / "inst" / "tokenizer" / "chat_template.jinja").read_text() == (
        template.read_text())


def test_prompts_and_completions_may_be_messages(folders, oracles, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", {"prompt": CHAT[:3], "completion": CHAT[3:]})
    run_tool("prepare.py", source, "--tokenizer", folders["chatml"], "--out", tmp_path / "store")
    [example] = dump(tmp_path / "store")["examples"]
    assert learned_text(oracles["chatml"], example) == [None, "saw none<|im_end|>", None]


def test_a_tokenizer_with_several_templates_has_one_for_tools(folders, tmp_path):
    from transformers import AutoTokenizer
    tokenizer = folders["chatml"] / "tokenizer.json"
    (tmp_path / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": [
        {"name": "default", "template": "{{ messages | length }} messages"},
        {"name": "tool_use", "template": "{{ tools | length }} tools"}]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    template = load_chat_template(str(tmp_path), None, settings, {})
    oracle = AutoTokenizer.from_pretrained(tmp_path)
    for tools in (None, TOOLS):
        assert template.render(CHAT, tools).text == oracle.apply_chat_template(
            CHAT, tools=tools, tokenize=False)

"""Templates of model families: packtrain renders them as transformers does, and what the table of
family_templates says of them is so, in transformers' rendering."""

import datetime
import json
import re

import family_templates
import prepare_program  # noqa: F401  puts packtrain_tools on the path
import pytest
from family_templates import (ASK, FAMILIES, FEATURES, GULL, HERON, REWRITTEN, TOOLS, Chat, Family,
                              conversations_for, make_folder, with_text_arguments)
from tokenizers import Tokenizer

from packtrain_tools.chat.template import load_chat_template
from packtrain_tools.prepare.encoding import Encoder

TODAY = datetime.date(2031, 2, 3)
WORDS = {"system": ["Be brief and kind."], "developer": ["Be brief and kind."], "late_system": ["Be brief and kind."],
         "tools": ["list_ponds", "Counts the birds of a place."], "calls": ["count_birds", "Oslo", "7"],
         "null_calls": ["Oslo"], "bare_calls": ["Oslo"], "beside": ["Let me look it up.", "Oslo"],
         "two_calls": ["Oslo", "Bergen"], "results": ["forty two"], "reasoning": ["Long legs,\n\nso it wades."],
         "thoughts": ["Long legs, so it wades.", "A heron."], "parts": ["Name a bird, please.", "A heron."],
         "two_users": ["Name a bird, please.", "And one of the sea?"], "assistant_first": ["A heron."]}


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Folders by family and kind of tokenizer."""
    path = tmp_path_factory.mktemp("families")
    return {(family.name, kind): make_folder(family, kind, path)
            for family in FAMILIES.values() for kind in family.tokenizers}


class Transformers:
    def __init__(self, folder, family: Family):
        from transformers import AutoTokenizer  # takes seconds
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.family = family

    def render(self, messages: list[dict], tools: list | None = None, prompt: bool = False,
               today: datetime.date = TODAY, **options) -> str | None:
        """None where the template refuses it."""
        messages = [self._own_reasoning(message) for message in messages]
        try:
            return self.tokenizer.apply_chat_template(
                messages, tools=tools, tokenize=False, add_generation_prompt=prompt,
                strftime_now=today.strftime, **options)
        except Exception:  # templates call methods of what they are given
            return None

    def marked(self, messages: list[dict]) -> list[str]:
        """Returns the passages that {% generation %} encloses."""
        from transformers.utils.chat_template_utils import render_jinja_template
        [text], [passages] = render_jinja_template(
            [messages], chat_template=self.family.template, return_assistant_tokens_mask=True,
            strftime_now=TODAY.strftime, **self.tokenizer.special_tokens_map)
        return [text[begin:end] for begin, end in passages]

    def _own_reasoning(self, message: dict) -> dict:
        message = dict(message)
        if "reasoning_content" in message:
            message[self.family.reasoning] = message.pop("reasoning_content")
        return message


def packtrain_text(folder, messages: list[dict], tools: list | None, prompt: bool,
                   options: dict | None = None) -> str | None:
    """Returns the text that packtrain renders, or None where the template refuses the conversation."""
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    template = load_chat_template(str(folder), None, settings, options or {}, date=TODAY.isoformat())
    try:
        return str(template.render(messages, tools, prompt).text)
    except ValueError:
        return None


@pytest.fixture(scope="session")
def oracles(folders):
    return {name: Transformers(folders[name, family.tokenizers[0]], family)
            for name, family in FAMILIES.items()}


@pytest.fixture(params=FAMILIES)
def family(request) -> Family:
    return FAMILIES[request.param]


@pytest.fixture
def oracle(oracles, family) -> Transformers:
    return oracles[family.name]


def probed_feature(oracle: Transformers, chat: Chat, feature: str) -> str:
    tools = chat.tools if feature == "tools" else None
    text = oracle.render(chat.messages, tools)
    if text is None:
        return "refuses"
    if "'type': 'text'" in text:
        return "prints"
    return "keeps" if all(word in text for word in WORDS[feature]) else "drops"


def answers_of(messages: list[dict]) -> list[int]:
    return [number for number, message in enumerate(messages) if message["role"] == "assistant"]


def rewrites_first_answer(oracle: Transformers, chat: Chat) -> bool:
    """Whether the text that asks for the first answer, or the answer up to its end, is another in the whole."""
    family, first = oracle.family, answers_of(chat.messages)[0]
    whole = oracle.render(chat.messages, chat.tools)
    asks = oracle.render(chat.messages[:first], chat.tools, True)
    through = oracle.render(chat.messages[:first + 1], chat.tools)
    if whole is None:
        return False
    calls = "tool_calls" in chat.messages[first]
    end = family.call_end if calls and family.call_end is not None else family.turn_end
    through = through[:through.rindex(end) + len(end)]
    return not (whole.startswith(through) and (whole.startswith(asks) or not family.begins_as_asked))


def spoken(chat: Chat) -> list[str]:
    """Returns the words of its messages and tools."""
    words = [tool["function"]["name"] for tool in chat.tools or []]
    for message in chat.messages:
        content = message.get("content") or ""
        if message["role"] == "tool":  # which some templates print as JSON
            content = [{"text": word} for word in re.findall(r"\w+", content)]
        texts = [content] if isinstance(content, str) else [part["text"] for part in content]
        for text in [*texts, message.get("reasoning_content", "")]:
            words += [part.strip() for part in text.replace("<think>", "</think>").split("</think>")]
        for call in message.get("tool_calls", []):
            words += [call["function"]["name"], *re.findall(
                r"[A-Z]\w+", json.dumps(call["function"]["arguments"]))]
    return words


# ---- packtrain and transformers agree

@pytest.mark.parametrize("prompt", [False, True], ids=["whole", "asks"])
def test_packtrain_renders_what_transformers_renders(folders, family, oracle, prompt):
    folder = folders[family.name, family.tokenizers[0]]
    for chat in conversations_for(family, everything=True).values():
        for tools in (None, chat.tools or TOOLS):
            wanted = oracle.render(chat.messages, tools, prompt)
            assert packtrain_text(folder, chat.messages, tools, prompt) == wanted, chat.name


@pytest.mark.parametrize("options", [{"enable_thinking": False}, {"date_string": "3 May 2030"},
                                     {"tools_in_user_message": False}, {"builtin_tools": ["count_birds"]},
                                     {"reasoning_effort": "high", "model_identity": "A"},
                                     {"controls": {"length": "long"}}],
                         ids=lambda options: next(iter(options)))
def test_options_reach_the_template(folders, family, oracle, options):
    if not any(name in family.template for name in options):
        return
    folder = folders[family.name, family.tokenizers[0]]
    for name, prompt in (("one", False), ("one", True), ("calls", False)):
        chat = conversations_for(family, everything=True)[name]
        wanted = oracle.render(chat.messages, chat.tools, prompt, **options)
        assert packtrain_text(folder, chat.messages, chat.tools, prompt, options) == wanted


@pytest.mark.parametrize("name, kind", [(family.name, kind) for family in FAMILIES.values()
                                        for kind in family.tokenizers])
def test_tokenizers_of_both_libraries_encode_equally(folders, name, kind):
    from transformers import AutoTokenizer
    family, folder = FAMILIES[name], folders[name, kind]
    theirs, ours = AutoTokenizer.from_pretrained(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))
    Encoder(str(folder))  # loads
    flags = {token.content: token for token in ours.get_added_tokens_decoder().values()}
    assert all((flags[token.content].special, flags[token.content].rstrip) == (token.special, token.rstrip)
               for token in family.tokens)
    assert all(len(theirs.encode(token.content, add_special_tokens=False)) == 1 or token.content.isspace()
               for token in family.tokens)
    for text in (oracle_text for chat in conversations_for(family).values()
                 if (oracle_text := packtrain_text(folder, chat.messages, chat.tools, False)) is not None):
        for adds in (False, True):
            assert theirs.encode(text, add_special_tokens=adds) == ours.encode(text, add_special_tokens=adds).ids
    begins = theirs.encode("bird")[0] == theirs.convert_tokens_to_ids(family.bos) if family.bos else False
    assert begins == family.adds_bos


# ---- the table is so

def test_features_are_kept_dropped_and_refused_as_the_table_says(family, oracle):
    chats = conversations_for(family, everything=True)
    assert {feature: probed_feature(oracle, chats[feature], feature) for feature in FEATURES} == \
        {feature: family.does(feature) for feature in FEATURES}


def test_earlier_turns_are_rewritten_where_the_table_says(family, oracle):
    chats = conversations_for(family, everything=True)
    assert {kind for kind, name in REWRITTEN.items() if rewrites_first_answer(oracle, chats[name])} == \
        family.rewrites


def test_conversations_that_fit_are_all_in_the_text(family, oracle):
    for name, chat in conversations_for(family).items():
        text = oracle.render(chat.messages, chat.tools)
        assert text is not None, name
        lost = [words for words in spoken(chat) if words not in text]
        assert not lost or chat.needs & family.rewrites, (name, lost)


def test_the_ends_of_turns_are_what_the_table_says(family, oracle):
    one, asks = oracle.render([ASK, HERON]), oracle.render([ASK], prompt=True)
    assert asks.endswith(family.generation_prompt)
    assert family.generation_prompt or asks.endswith(("[/INST]", "<|im_sep|>"))
    assert one.endswith("A heron." + family.turn_end + family.after_last)
    assert one.startswith(asks) == family.begins_as_asked
    calls = conversations_for(family).get("calls") or conversations_for(family).get("null_calls")
    if calls:
        text = oracle.render(calls.messages[:2], calls.tools)
        end = family.turn_end if family.call_end is None else family.call_end
        assert text.endswith(end + family.after_last)
        assert end or not text.endswith(family.turn_end) or not family.turn_end


def test_dates_system_turns_and_white_space_are_what_the_table_says(family, oracle):
    one = [ASK, HERON]
    assert (oracle.render(one) != oracle.render(one, today=datetime.date(2030, 1, 1))) == family.prints_today
    takes_date = oracle.render(one, date_string="3 May") != oracle.render(one)
    assert takes_date == (family.date_option == "date_string")
    assert ("system" in oracle.render([ASK]).lower()) == family.system_always
    spaced = oracle.render([ASK, {"role": "assistant", "content": " \n heron \n"}])
    assert (" \n heron \n" not in spaced) == family.strips


def test_forms_of_calls_are_what_the_table_says(family, oracle):
    name = next((name for name in ("calls", "null_calls") if name in family.keeps), None)
    if name is None:
        assert not family.text_arguments and not family.call_ids
        return
    call = {"id": "call00001", "type": "function", "function": {"name": "count_birds", "arguments": {"of": "owls"}}}
    message = {"role": "assistant", "content": "" if name == "calls" else None, "tool_calls": [call]}
    text, plain = with_text_arguments(message), {**message, "tool_calls": [{**call, "id": "1"}]}
    assert (oracle.render([ASK, message]) is None) == family.text_arguments
    assert (oracle.render([ASK, with_text_arguments(plain)]) is None) == family.call_ids
    assert '{"of": "owls"}' in oracle.render([ASK, text if family.text_arguments else message])


def test_marks_are_what_the_table_says(family, oracle):
    passages = oracle.marked([ASK, HERON, ASK, GULL])
    if not family.marks:
        assert passages == []
        return
    header = family.generation_prompt if family.marks == "headers" else ""
    wanted = [header + text["content"] + family.turn_end for text in (HERON, GULL)]
    if family.marks_after_last:
        assert passages.pop() == family.eos
    assert [passage.removesuffix("\n").removeprefix("<think>\n\n</think>\n\n").removeprefix(" ")
            for passage in passages] == wanted


def test_every_template_has_a_family():
    assert {path.stem for path in family_templates.HERE.glob("*.jinja")} == set(FAMILIES)

"""Tests the loss masks of conversations, with the templates and tokenizers of many families.

All content of a record is in the text, or the record is refused. In text and in tokens, a learned turn begins where
the prompt of an inference ends, and ends where the model must stop."""

import datetime
import json
import unicodedata
from collections import Counter

import prepare_program  # noqa: F401  puts packtrain_tools on the path
import pytest
from family_templates import FAMILIES, Chat, Family, conversations_for, make_folder
from test_family_templates import WORDS

from packtrain_tools.chat.conversations import read_messages
from packtrain_tools.chat.mask import ChatMask, MaskOptions
from packtrain_tools.chat.template import load_chat_template
from packtrain_tools.prepare.chat_rows import ChatRows
from packtrain_tools.prepare.encoding import Encoder
from packtrain_tools.prepare.tokenizer import TokenizerVariants, load_tokenizer

DATE = "2031-02-03"
PAIRS = [(name, kind) for name, family in FAMILIES.items() for kind in family.tokenizers]


class Prepared:
    """A family's folder as packtrain and as transformers read it."""

    def __init__(self, family: Family, folder):
        from transformers import AutoTokenizer  # takes seconds
        self.family = family
        self.oracle = AutoTokenizer.from_pretrained(folder)
        self.loaded = load_tokenizer(str(folder))
        self.encoder = Encoder(str(folder))
        self.template = load_chat_template(str(folder), None, self.encoder.settings, {}, DATE,
                                           self.encoder.named_tokens())
        control = set(self.loaded.special_tokens)
        self.rows = ChatRows(self.loaded, TokenizerVariants(self.loaded, control), control, "token")

    def render(self, chat: Chat, train_on: str, counts: Counter | None = None):
        mask = ChatMask(self.template, MaskOptions(train_on, allow_open_turns=not self.family.turn_end),
                        self.encoder.special_tokens(), self.encoder.added_tokens())
        conversation = read_messages(chat.messages, chat.tools)
        rendered = [mask.render(each, counts) for each in mask.divided(conversation, counts)]
        return [each for each in rendered if each]

    def prompt(self, chat: Chat, turn: int) -> str:
        """Returns the prompt that transformers renders for inference."""
        return self.text(chat, turn, True)

    def text(self, chat: Chat, num_messages: int, prompt: bool = False) -> str:
        today = datetime.date.fromisoformat(DATE)
        messages = [self._own(message) for message in chat.messages[:num_messages]]
        return self.oracle.apply_chat_template(messages, tools=chat.tools, tokenize=False,
                                               add_generation_prompt=prompt, strftime_now=today.strftime)

    def is_shown_when_asked(self, chat: Chat) -> bool:
        """True where the prompt of the only answer holds everything before that answer."""
        if len(answers(chat)) != 1:
            return False
        try:
            prompt = self.prompt(chat, answers(chat)[0])
        except Exception:  # templates call methods of what they are given
            return False
        return all(word in prompt for need in chat.needs for word in WORDS[need])

    def is_asked_so(self, chat: Chat, in_one: bool) -> bool:
        """True where each answer begins with its prompt; `in_one`: in the whole conversation too."""
        whole = self.text(chat, len(chat.messages))
        for turn in answers(chat):
            through = self.text(chat, turn + 1)
            if not through.startswith(self.prompt(chat, turn)):
                return False
            if in_one and not whole.startswith(through.removesuffix(self.family.after_last)):
                return False
        return True

    def _own(self, message: dict) -> dict:
        message = dict(message)
        if "reasoning_content" in message:
            message[self.family.reasoning] = message.pop("reasoning_content")
        return message

    def row(self, rendered):
        encoding = self.loaded.tokenizer.encode(rendered.text, add_special_tokens=False)
        return self.rows.row(rendered, encoding, Counter())


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    path = tmp_path_factory.mktemp("masks")
    made: dict[tuple[str, str], Prepared] = {}

    def get(name: str, kind: str | None = None) -> Prepared:
        family = FAMILIES[name]
        kind = kind or family.tokenizers[0]
        if (name, kind) not in made:
            made[name, kind] = Prepared(family, make_folder(family, kind, path))
        return made[name, kind]

    return get


def answers(chat: Chat) -> list[int]:
    """The turns that are learned."""
    turns = [i for i, message in enumerate(chat.messages) if message["role"] == "assistant"]
    return turns[1:] if chat.name == "assistant_first" else turns


def words_of(chat: Chat) -> list[str]:
    """Everything that its messages and tools say."""
    said = repr([chat.messages, chat.tools])
    words = [word for need in chat.needs for word in WORDS[need] if repr(word)[1:-1] in said]
    for message in chat.messages:
        content = message.get("content")
        words += [part["text"] for part in content] if isinstance(content, list) else [content or ""]
    return [word.strip() for word in words]


def learned(rendered) -> list[str]:
    return [rendered.text[begin:end] for begin, end, _ in rendered.learned]


def accepted(prepared, family: Family, train_on: str, everything: bool = False):
    """Conversations with their rendered examples."""
    for name, chat in conversations_for(family, everything).items():
        try:
            yield name, chat, prepared(family.name).render(chat, train_on)
        except ValueError:
            pass


def squeezed(text: str) -> str:
    """Some tokenizers normalise, and templates trim."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def without_thoughts(text: str) -> str:
    return text.split("</think>")[-1].strip()


@pytest.mark.parametrize("name", FAMILIES)
def test_all_of_a_record_is_in_the_text_or_it_is_refused(prepared, name):
    for chat_name, chat, examples in accepted(prepared, FAMILIES[name], "assistant", everything=True):
        text = examples[-1].text
        assert "{'type': 'text'" not in text
        for word in words_of(chat):
            for piece in word.replace("<think>", "\0").replace("</think>", "\0").split("\0"):
                as_json = json.dumps(piece, ensure_ascii=False)[1:-1]
                assert squeezed(piece) in squeezed(text) or squeezed(as_json) in squeezed(text), (chat_name, word)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_a_template_drops_is_refused_by_name(prepared, name):
    family = FAMILIES[name]
    for chat_name, chat in conversations_for(family, everything=True).items():
        if not any(family.does(need) == "drops" for need in chat.needs - {"parts"}):  # these are joined
            continue
        if prepared(name).is_shown_when_asked(chat):
            continue
        with pytest.raises(ValueError, match=r"leaves|refuses it|cannot be masked"):
            print(chat_name, [learned(each) for each in prepared(name).render(chat, "assistant")])


@pytest.mark.parametrize("name", FAMILIES)
def test_what_a_family_keeps_is_trained_as_it_is_asked_for_and_nothing_else(prepared, name):
    family = FAMILIES[name]
    made = prepared(name)
    for chat_name, chat in conversations_for(family).items():
        if made.is_asked_so(chat, in_one=False):
            assert len(made.render(chat, "each-turn")) == len(answers(chat)), chat_name
        if made.is_asked_so(chat, in_one=True):
            assert len(made.render(chat, "assistant")) == 1, chat_name
        elif not family.marks:
            with pytest.raises(ValueError, match=r"cannot be masked|leaves"):
                print(chat_name, learned(made.render(chat, "assistant")[0]))


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("train_on", ["assistant", "each-turn"])
def test_a_turn_is_learned_from_the_prompt_of_an_inference_to_its_end(prepared, name, train_on):
    family = FAMILIES[name]
    for chat_name, chat, examples in accepted(prepared, family, train_on):
        turns = answers(chat)
        spans = [(each.text, begin, end) for each in examples for begin, end, _ in each.learned]
        assert len(spans) == len(turns), chat_name
        for turn, (text, begin, end) in zip(turns, spans):
            if not family.marks:
                assert text[:begin] == prepared(name).prompt(chat, turn), chat_name
            passage = text[begin:end]
            end_token = family.turn_end
            if chat.messages[turn].get("tool_calls") and family.call_end is not None:
                end_token = family.call_end
            assert passage.endswith(end_token), chat_name
            content = chat.messages[turn].get("content") or ""
            assert without_thoughts(content if isinstance(content, str) else content[0]["text"]) in passage
            assert not end_token or passage.count(end_token) == 1


@pytest.mark.parametrize("name, kind", PAIRS)
def test_tokens_before_a_turn_are_those_of_the_prompt(prepared, name, kind):
    family = FAMILIES[name]
    if family.marks:
        return  # what a mark encloses is the template's own choice
    made = prepared(name, kind)
    for chat_name, chat in conversations_for(family).items():
        try:
            examples = made.render(chat, "each-turn")
        except ValueError:
            continue
        for turn, rendered in zip(answers(chat), examples, strict=True):
            ids, mask = made.row(rendered)
            wanted = made.oracle(made.prompt(chat, turn), add_special_tokens=False)["input_ids"]
            assert ids[:mask.argmax()] == wanted, (chat_name, turn)


@pytest.mark.parametrize("name, kind", PAIRS)
def test_ids_are_those_of_transformers_and_the_mask_covers_the_turns(prepared, name, kind):
    family = FAMILIES[name]
    made = prepared(name, kind)
    for chat_name, chat in conversations_for(family).items():
        try:
            [rendered] = made.render(chat, "assistant")
        except ValueError:
            continue
        ids, mask = made.row(rendered)
        if chat_name != "spaces":  # white space at a boundary may be encoded apart
            assert ids == made.oracle(rendered.text, add_special_tokens=False)["input_ids"]
        told = made.oracle.decode([token for token, each in zip(ids, mask) if each])
        assert squeezed(told) == squeezed("".join(learned(rendered))), chat_name

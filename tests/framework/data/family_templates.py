"""Chat templates in the shapes that model families publish (family_templates/NAME.jinja).

A table says how each template renders the parts of a conversation. make_folder() writes folders of
tokenizers with these templates.

    for name, family in FAMILIES.items():
        folder = make_folder(family, family.tokenizers[0], tmp_path)
        for chat in conversations_for(family).values():
            ...

The table is held against transformers' rendering (test_family_templates.py).
"""

import copy
import json
from dataclasses import dataclass, replace
from pathlib import Path

from family_tokenizers import (CHATML, COMMAND_R, DEEPSEEK, GEMMA, GLM4, GPT_OSS, GRANITE, LLAMA2, LLAMA3, LLAMA31,
                               MISTRAL3, MISTRAL7, OLMO2, PHI3, PHI4, QWEN3, QWEN25, Token, make_tokenizer,
                               save_tokenizer)

HERE = Path(__file__).parent / "family_templates"
BYTE_LEVEL = ("byte_level", "byte_level_gpt2", "byte_level_trimmed")

# Features that a message or a conversation may have. A family keeps a feature in the text, refuses it, or
# prints Python's form of it. A feature that the table does not name is dropped silently.
# Calls come with an empty content (`calls`), with null (`null_calls`), without content (`bare_calls`), or with
# words (the feature after `bare_calls`). `thoughts` are in tags inside the content, `reasoning` is in a field, and
# `parts` are lists as content.
FEATURES = ("system", "developer", "late_system", "tools", "calls", "null_calls", "bare_calls", "beside",
            "two_calls", "results", "reasoning", "thoughts", "parts", "two_users", "assistant_first")
# Kinds of conversations whose first question or answer may be rendered in another way when others follow.
# Each kind has the name of a conversation that shows it.
REWRITTEN = {"plain": "three", "system": "system_three", "tools": "tools", "reasoning": "reasoning_three",
             "thoughts": "thoughts_three", "beside": "beside_answered"}


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    tokens: tuple[Token, ...]
    bos: str | None
    eos: str
    tokenizers: tuple[str, ...]
    generation_prompt: str
    turn_end: str  # ends an answer; nothing: the next role does
    after_last: str = ""  # follows the end of the last answer
    call_end: str | None = None  # ends a call; None: as an answer
    adds_bos: bool = False  # the tokenizer puts one before each text
    keeps: frozenset[str] = frozenset()
    refuses: frozenset[str] = frozenset()
    prints: frozenset[str] = frozenset()  # as Python does
    rewrites: frozenset[str] = frozenset()  # of REWRITTEN: not all turns can be learned in one example
    begins_as_asked: bool = True  # an answer without a thought begins as the generation prompt does
    system_always: bool = False  # a system turn though the conversation has none
    strips: bool = False  # white space around answers
    reasoning: str = "reasoning_content"  # the name that the template reads
    prints_today: bool = False
    date_option: str = ""  # the variable that sets the date it prints
    text_arguments: bool = False  # arguments of calls are JSON in a string
    call_ids: bool = False  # of 9 characters, which calls and results must have
    marks: str = ""  # {% generation %} encloses "turns", or "headers" too
    marks_after_last: bool = False  # and what follows the last turn, by itself

    @property
    def template(self) -> str:
        return (HERE / f"{self.name}.jinja").read_text(encoding="utf-8")

    def does(self, feature: str) -> str:
        assert feature in FEATURES
        return "keeps" if feature in self.keeps else "refuses" if feature in self.refuses else \
            "prints" if feature in self.prints else "drops"


def _family(like: Family | None = None, **changes) -> Family:
    for key in ("keeps", "refuses", "prints", "rewrites"):
        if key in changes:
            changes[key] = frozenset(changes[key].split())
    return Family(**changes) if like is None else replace(like, **changes)


OPEN = "system late_system thoughts two_users assistant_first "  # what has no rules of who speaks when
AGENT = "tools calls null_calls bare_calls results "
IN_TURN = "developer late_system null_calls bare_calls two_calls results two_users assistant_first "
NO_STRINGS = "null_calls bare_calls parts"  # what `+` refuses
HEADER = "<|start_header_id|>assistant<|end_header_id|>\n\n"
_LLAMA2 = _family(
    name="llama2", tokens=LLAMA2, bos="<s>", eos="</s>", adds_bos=True, tokenizers=("metaspace_legacy", "metaspace"),
    generation_prompt="", turn_end=" </s>", keeps="system thoughts", refuses=IN_TURN + "parts", strips=True)
_LLAMA3 = _family(
    name="llama3_fixed", tokens=LLAMA3, bos="<|begin_of_text|>", eos="<|eot_id|>", adds_bos=True,
    tokenizers=("byte_level",), generation_prompt=HEADER, turn_end="<|eot_id|>",
    keeps=OPEN + "developer results", prints="parts", strips=True)
_LLAMA31 = _family(_LLAMA3, name="llama3_1", tokens=LLAMA31, keeps=OPEN + AGENT + "developer",
                   refuses="two_calls", system_always=True, date_option="date_string")
_QWEN25 = _family(
    name="qwen2_5", tokens=QWEN25, bos=None, eos="<|im_end|>", tokenizers=("byte_level_nfc",),
    generation_prompt="<|im_start|>assistant\n", turn_end="<|im_end|>", after_last="\n",
    keeps=OPEN + AGENT + "beside two_calls", refuses="parts", system_always=True)
_QWEN3 = _family(_QWEN25, name="qwen3_instruct", tokens=QWEN3, refuses="", system_always=False)
_GEMMA2 = _family(
    name="gemma2", tokens=GEMMA, bos="<bos>", eos="<eos>", adds_bos=True, tokenizers=("byte_fallback",),
    generation_prompt="<start_of_turn>model\n", turn_end="<end_of_turn>", after_last="\n",
    keeps="thoughts", refuses=IN_TURN + "system", prints="parts", strips=True)
_MISTRAL1 = _family(_LLAMA2, name="mistral_v1", turn_end="</s>", strips=False)
_MISTRAL3 = _family(_MISTRAL1, name="mistral_v3", tokens=MISTRAL3, keeps=AGENT + "two_calls thoughts", strips=True,
                    refuses="developer late_system parts two_users assistant_first", rewrites="system tools",
                    call_ids=True)
_PHI3 = _family(
    name="phi3", tokens=PHI3, bos="<s>", eos="<|endoftext|>", tokenizers=("metaspace_legacy", "metaspace"),
    generation_prompt="<|assistant|>\n", turn_end="<|end|>", after_last="\n<|endoftext|>", keeps=OPEN,
    refuses=NO_STRINGS)
_PHI4 = _family(
    name="phi4", tokens=PHI4, bos="<|endoftext|>", eos="<|im_end|>", tokenizers=("byte_level",),
    generation_prompt="<|im_start|>assistant<|im_sep|>", turn_end="<|im_end|>", keeps=OPEN, refuses=NO_STRINGS)
_GRANITE3 = _family(
    name="granite3", tokens=GRANITE, bos="<|end_of_text|>", eos="<|end_of_text|>", tokenizers=("byte_level_gpt2",),
    generation_prompt="<|start_of_role|>assistant<|end_of_role|>", turn_end="<|end_of_text|>", after_last="\n",
    keeps=OPEN + "tools", refuses=NO_STRINGS)
_DEEPSEEK3 = _family(
    name="deepseek_v3", tokens=DEEPSEEK, bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>", adds_bos=True,
    tokenizers=("byte_level",), generation_prompt="<｜Assistant｜>", turn_end="<｜end▁of▁sentence｜>",
    keeps="system late_system calls null_calls bare_calls beside two_calls results two_users assistant_first",
    refuses="parts", text_arguments=True)
_CHATML = _family(
    name="chatml", tokens=CHATML, bos=None, eos="<|im_end|>", tokenizers=(*BYTE_LEVEL, "unigram"),
    generation_prompt="<|im_start|>assistant\n", turn_end="<|im_end|>", after_last="\n",
    keeps=OPEN + "developer results", refuses=NO_STRINGS)
_ALL = [
    _LLAMA2, _family(_LLAMA3, name="llama3", after_last=HEADER), _LLAMA3,
    _family(_LLAMA3, name="llama3_marked", marks="turns"), _LLAMA31,
    _family(_LLAMA31, name="llama3_2", prints_today=True),
    _QWEN25, _family(_QWEN25, name="qwen2_5_marked", marks="turns"),
    _family(_QWEN3, name="qwen3_thinking", keeps=OPEN + AGENT + "beside two_calls reasoning",
            rewrites="plain system tools reasoning thoughts beside"),
    _family(_QWEN3, name="qwen3_marked", keeps=OPEN + AGENT + "beside two_calls reasoning", marks="turns"), _QWEN3,
    _GEMMA2, _family(_GEMMA2, name="gemma_marked", marks="turns"),
    _family(_GEMMA2, name="gemma3", keeps="system thoughts parts", refuses=IN_TURN, prints=""),
    _MISTRAL1, _MISTRAL3, _family(_MISTRAL3, name="mistral_v3_marked", marks="turns"),
    _family(_MISTRAL3, name="mistral_v3_tekken", tokenizers=("byte_level",), strips=False),
    _family(_MISTRAL1, name="mistral_v7", tokens=MISTRAL7, tokenizers=("metaspace",), keeps=OPEN,
            refuses="developer results two_calls " + NO_STRINGS),
    _family(_MISTRAL3, name="mistral_small3", tokens=MISTRAL7, tokenizers=("byte_level",), strips=False,
            keeps=AGENT + "system two_calls thoughts parts", rewrites="tools", system_always=True, prints_today=True,
            refuses="developer late_system two_users assistant_first"),
    _PHI3, _family(_PHI3, name="phi3_5"), _family(_PHI3, name="phi3_marked", marks="turns", marks_after_last=True),
    _PHI4, _family(_PHI4, name="phi4_first", generation_prompt=""),
    _family(_PHI4, name="olmo2", tokens=OLMO2, eos="<|endoftext|>", tokenizers=BYTE_LEVEL,
            generation_prompt="<|assistant|>\n", turn_end="<|endoftext|>"),
    _GRANITE3, _family(_GRANITE3, name="granite3_1", keeps=OPEN + "developer tools results", system_always=True,
                       prints_today=True),
    _DEEPSEEK3,
    _family(_DEEPSEEK3, name="deepseek_r1_distill", generation_prompt="<｜Assistant｜><think>\n", call_end="",
            keeps="system late_system null_calls results two_users assistant_first", refuses="bare_calls parts",
            begins_as_asked=False),
    _family(name="gpt_oss", tokens=GPT_OSS, bos="<|startoftext|>", eos="<|return|>", tokenizers=("byte_level",),
            generation_prompt="<|start|>assistant", turn_end="<|return|>", call_end="<|call|>", reasoning="thinking",
            keeps="system developer tools calls bare_calls beside results reasoning thoughts two_users assistant_first",
            refuses="null_calls parts", rewrites="plain system tools reasoning thoughts beside",
            system_always=True, prints_today=True),
    _family(_PHI3, name="zephyr", tokens=LLAMA2, eos="</s>", adds_bos=True, turn_end="</s>", after_last="\n"),
    _CHATML,
    _family(_CHATML, name="smollm3", tokens=QWEN3, tokenizers=("byte_level",), refuses="", marks="headers",
            keeps="system tools results thoughts two_users assistant_first", system_always=True, prints_today=True),
    _family(_CHATML, name="glm4", tokens=GLM4, eos="<|endoftext|>", tokenizers=("byte_level", "unigram"),
            generation_prompt="<|assistant|>", turn_end="", after_last="",
            keeps=OPEN + AGENT + "developer two_calls", refuses="parts"),
    _family(_LLAMA2, name="command_r", tokens=COMMAND_R, bos="<BOS_TOKEN>", eos="<|END_OF_TURN_TOKEN|>",
            tokenizers=("byte_level_gpt2",), generation_prompt="<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
            turn_end="<|END_OF_TURN_TOKEN|>"),
]
FAMILIES: dict[str, Family] = {family.name: family for family in _ALL}


def make_folder(family: Family, tokenizer_kind: str, path: Path) -> Path:
    """A tokenizer's folder of Hugging Face in `path`/NAME-KIND."""
    folder = path / f"{family.name}-{tokenizer_kind}"
    folder.mkdir(parents=True, exist_ok=True)
    bos = family.bos if family.adds_bos else None
    save_tokenizer(folder, make_tokenizer(tokenizer_kind, family.tokens, bos))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": family.bos, "eos_token": family.eos}))
    (folder / "chat_template.jinja").write_text(family.template, encoding="utf-8")
    return folder


# ---- conversations

@dataclass(frozen=True, slots=True)
class Chat:
    name: str
    messages: list[dict]
    tools: list[dict] | None = None
    needs: frozenset[str] = frozenset()  # of FEATURES


def _user(text: str) -> dict:
    return {"role": "user", "content": text}


def _answer(text: str, **more) -> dict:
    return {"role": "assistant", "content": text, **more}


def _call(name: str, number: int, **arguments) -> dict:
    return {"id": f"call0000{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def _result(text: str, number: int = 1) -> dict:
    return {"role": "tool", "content": text, "tool_call_id": f"call0000{number}", "name": "count_birds"}


TOOLS = [{"type": "function", "function": {
    "name": "count_birds", "description": "Counts the birds of a place.",
    "parameters": {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string", "description": "where (\"Å\")", "enum": ["Oslo", "Ås"]},
        "most": {"type": "integer"}}}}},
         {"type": "function", "function": {"name": "list_ponds", "description": "Names of ponds.",
                                           "parameters": {"type": "object", "properties": {}}}}]
ASK, ASK_MORE, ASK_LAST = _user("Name a bird, please."), _user("And one of the sea?"), _user("A small one?")
HERON, GULL, WREN = _answer("A heron."), _answer("The gull is one."), _answer("Then a wren.\nOr a tit.")
BE = {"role": "system", "content": "Be brief and kind."}
CALL = _answer("", tool_calls=[_call("count_birds", 1, place="Oslo", most=7)])
FOUND, COUNTED = _result("forty two"), _answer("There are 42 of them.")
LOOK = CALL | {"content": "Let me look it up."}
TWO = _answer("", tool_calls=[_call("count_birds", 1, place="Oslo"), _call("list_ponds", 2, near="Bergen")])
ODD = _answer("", tool_calls=[_call("count_birds", 1, of=["ærø", "\u2028", '"a" <b> \\n & \'c\'', "", None],
                                    at={"x": 1.50, "y": -3e-9, "z": True, "w": {}}, most=12345678901234567890)])
THINK, THINK_MORE = {"reasoning_content": "Long legs,\n\nso it wades."}, {"reasoning_content": "White, at the sea."}
TAGGED = _answer("<think>\nLong legs, so it wades.\n</think>\n\nA heron.")
TAGGED_MORE = _answer("<think>\nWhite, at the sea.\n</think>\n\nThe gull is one.")


def _chats() -> list[Chat]:
    def chat(name: str, *messages: dict, tools: list | None = None, needs: str = "") -> Chat:
        return Chat(name, list(messages), tools, frozenset(needs.split()))

    return [
        chat("one", ASK, HERON),
        chat("three", ASK, HERON, ASK_MORE, GULL, ASK_LAST, WREN),
        chat("unicode", _user("Wie heißt der Vogel? 鸟 e\u0301 \u1100\u1161\u11a8"),
             _answer("Ein Kranich 🐦\u200d⬛, 鹤, علي, देवनागरी, x\u0301\tﬁn")),
        chat("spaces", _user("  Write code. \n"), _answer("\n    return a\n\n  b \n"), ASK_MORE, _answer(" gull")),
        chat("empty", ASK, _answer(""), ASK_MORE, GULL),
        chat("long", *[turn for n in range(12) for turn in (_user(f"Number {n}?"), _answer(f"It is {n}."))]),
        chat("system", BE, ASK, HERON, needs="system"),
        chat("system_three", BE, ASK, HERON, ASK_MORE, GULL, ASK_LAST, WREN, needs="system"),
        chat("developer", BE | {"role": "developer"}, ASK, HERON, needs="developer"),
        chat("late_system", ASK, HERON, BE, ASK_MORE, GULL, needs="late_system"),
        chat("tools", ASK, HERON, ASK_MORE, GULL, tools=TOOLS, needs="tools"),
        chat("calls", ASK, CALL, tools=TOOLS, needs="calls"),
        chat("null_calls", ASK, CALL | {"content": None}, FOUND, COUNTED, tools=TOOLS, needs="null_calls results"),
        chat("bare_calls", ASK, {key: CALL[key] for key in ("role", "tool_calls")}, FOUND, COUNTED, tools=TOOLS,
             needs="bare_calls results"),
        chat("beside", ASK, LOOK, tools=TOOLS, needs="calls beside"),
        chat("beside_answered", ASK, LOOK, FOUND, COUNTED, tools=TOOLS, needs="calls beside results"),
        chat("two_calls", ASK, TWO, FOUND, _result("eight", 2), COUNTED, tools=TOOLS, needs="two_calls results"),
        chat("results", ASK, CALL, FOUND, COUNTED, tools=TOOLS, needs="calls results"),
        chat("odd_calls", ASK, ODD, _result('{"n": 1, "å": "<&>"}\n'), COUNTED, tools=TOOLS, needs="calls results"),
        chat("agent", BE, ASK, CALL, FOUND, CALL, _result("one hundred"), COUNTED, ASK_MORE, GULL, tools=TOOLS,
             needs="calls results system"),
        chat("reasoning", ASK, HERON | THINK, needs="reasoning"),
        chat("reasoning_three", ASK, HERON | THINK, ASK_MORE, GULL | THINK_MORE, needs="reasoning"),
        chat("reasoning_calls", ASK, CALL | THINK, FOUND, COUNTED | THINK_MORE, tools=TOOLS,
             needs="calls results reasoning"),
        chat("thoughts", ASK, TAGGED, needs="thoughts"),
        chat("thoughts_three", ASK, TAGGED, ASK_MORE, TAGGED_MORE, needs="thoughts"),
        chat("parts", *({**turn, "content": [{"type": "text", "text": turn["content"]}]} for turn in (ASK, HERON)),
             needs="parts"),
        chat("two_users", ASK, ASK_MORE, GULL, needs="two_users"),
        chat("assistant_first", HERON, ASK_MORE, GULL, needs="assistant_first"),
    ]


def conversations_for(family: Family, everything: bool = False) -> dict[str, Chat]:
    """Returns conversations by name, in the family's form of calls. Without `everything` they are those that the
    family keeps completely (but see `rewrites`), with tools where it keeps them."""
    chats = {chat.name: chat for chat in _chats() if everything or chat.needs <= family.keeps}
    if not everything and "tools" not in family.keeps:
        chats = {name: replace(chat, tools=None) for name, chat in chats.items()}
    if family.text_arguments:
        for chat in chats.values():
            chat.messages[:] = [with_text_arguments(message) for message in chat.messages]
    return chats


def with_text_arguments(message: dict) -> dict:
    message = copy.deepcopy(message)
    for call in message.get("tool_calls", []):
        call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
    return message

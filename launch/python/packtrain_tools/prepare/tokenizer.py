"""The tokenizer of a Hugging Face folder, with all tokens that transformers gives it: those of
tokenizer.json and those of the folder's other files."""

import json
import os
import re
from dataclasses import dataclass

import tokenizers

from packtrain_tools.chat.template import named_tokens
from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.json_object import read_object

# The tokens that transformers 5.17 gives a tokenizer class whose files name none: the defaults of the
# classes' constructors (bos_token, eos_token).
_CLASS_TOKENS = {
    "CodeLlamaTokenizer": ("<s>", "</s>"), "CohereTokenizer": ("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"),
    "GPT2Tokenizer": ("<|endoftext|>", "<|endoftext|>"), "GemmaTokenizer": ("<bos>", "<eos>"),
    "GPTNeoXTokenizer": ("<|endoftext|>", "<|endoftext|>"), "LlamaTokenizer": ("<s>", "</s>"),
    "Qwen2Tokenizer": (None, "<|endoftext|>"), "Qwen3_5Tokenizer": (None, "<|endoftext|>"),
}
# The tokenizer classes that transformers uses for a model, where tokenizer_config.json names none.
_MODEL_CLASSES = {
    "codegen": "GPT2Tokenizer", "cohere": "CohereTokenizer", "cohere2": "CohereTokenizer",
    "dbrx": "GPT2Tokenizer", "gemma": "GemmaTokenizer", "gemma2": "GemmaTokenizer",
    "gemma3": "GemmaTokenizer", "gemma3_text": "GemmaTokenizer", "gpt2": "GPT2Tokenizer",
    "gpt_neox": "GPTNeoXTokenizer", "jais2": "GPT2Tokenizer", "olmo": "GPTNeoXTokenizer", "phi": "GPT2Tokenizer",
    "qwen2": "Qwen2Tokenizer", "qwen2_moe": "Qwen2Tokenizer", "qwen3": "Qwen2Tokenizer",
    "qwen3_moe": "Qwen2Tokenizer",
}
TAIL = 256  # characters in which a token at the end of a text is searched, with white space after it
_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


@dataclass(frozen=True, slots=True)
class LoadedTokenizer:
    tokenizer: tokenizers.Tokenizer
    settings: dict  # tokenizer_config.json
    named: dict[str, str]  # bos_token, eos_token, ...: from all files

    @property
    def special_tokens(self) -> list[str]:
        """Tokens that are flagged special, and those that have a name."""
        flagged = [token.content for token in self.added_tokens.values() if token.special]
        return flagged + [token for token in self.named.values() if token not in flagged]

    @property
    def added_tokens(self) -> dict[int, tokenizers.AddedToken]:
        return self.tokenizer.get_added_tokens_decoder()

    @property
    def vocab_size(self) -> int:
        return 1 + max(self.tokenizer.get_vocab(with_added_tokens=True).values())


def load_tokenizer(folder: str) -> LoadedTokenizer:
    """Raises ToolError where there is none, or where its files contradict each other."""
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.isfile(path):
        raise ToolError(f"{folder}: has no tokenizer.json", _advice_without(folder), CONFIG)
    try:
        tokenizer = tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # the library raises bare Exception
        raise ToolError(f"{path}: is no tokenizer: {error}", exit_code=CONFIG) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if getattr(tokenizer.model, "dropout", None) is not None:  # each run makes the same tokens
        tokenizer.model.dropout = None
    settings = read_settings(folder, "tokenizer_config.json")
    told = _told_settings(folder, settings)
    _add_tokens(folder, tokenizer, told, settings)
    defaults = {name: token for name, token in _class_tokens(folder, settings).items()
                if tokenizer.token_to_id(token) is not None}  # else it is no token of this tokenizer
    named = _add_named_tokens(tokenizer, defaults | told)
    return LoadedTokenizer(tokenizer, settings, named)


def _advice_without(folder: str) -> str:
    if any(os.path.isfile(os.path.join(folder, name)) for name in ("tokenizer.model", "vocab.json")):
        return ("Its slow tokenizer can be converted: AutoTokenizer.from_pretrained(FOLDER)"
                ".save_pretrained(FOLDER), with transformers and sentencepiece.")
    return ("Give a Hugging Face folder with a fast tokenizer, or train one with "
            "launch/python/train_tokenizer.py.")


def _told_settings(folder: str, settings: dict) -> dict:
    """Adds special_tokens_map.json. It counts where tokenizer_config.json has no decoder of added tokens,
    and for names that are missing elsewhere."""
    mapped = read_settings(folder, "special_tokens_map.json")
    return settings | mapped if "added_tokens_decoder" not in settings else mapped | settings


def _class_tokens(folder: str, settings: dict) -> dict[str, str]:
    name = settings.get("tokenizer_class")
    if not isinstance(name, str):
        model_type = read_settings(folder, "config.json").get("model_type")
        name = _MODEL_CLASSES.get(model_type) if isinstance(model_type, str) else None
    bos, eos = _CLASS_TOKENS.get((name or "").removesuffix("Fast"), (None, None))
    return {key: token for key, token in (("bos_token", bos), ("eos_token", eos)) if token}


def _add_tokens(folder: str, tokenizer: tokenizers.Tokenizer, told: dict, settings: dict):
    """Adds tokens that tokenizer.json lacks, or has with other flags. Their ids must be those in the
    files."""
    ids = dict(_decoder_tokens(folder, settings))
    if "added_tokens_decoder" not in settings:
        ids |= _legacy_tokens(folder, told)
    present = {token.content: repr(token) for token in tokenizer.get_added_tokens_decoder().values()}
    for token_id, token in sorted(ids.items()):
        if present.get(token.content) != repr(token):
            tokenizer.add_tokens([token])
        got = tokenizer.token_to_id(token.content)
        if got != token_id:
            raise ToolError(f"{folder}: the token '{token.content}' has the id {token_id} in "
                            f"tokenizer_config.json or added_tokens.json, and {got} with "
                            "tokenizer.json", "Save the tokenizer again with transformers.", CONFIG)


def _add_named_tokens(tokenizer: tokenizers.Tokenizer, told: dict) -> dict[str, str]:
    """Makes tokens that have a name, and listed ones, special as transformers does, also if the vocabulary
    has them. They get their ids in this order. Returns them by name."""
    extra = told.get("extra_special_tokens", told.get("additional_special_tokens"))
    own = extra if isinstance(extra, dict) else {}
    told = dict.fromkeys(_NAMES) | told | own
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    for token in [told[name] for name in told if name in named_tokens(told)] + \
            (extra if isinstance(extra, list) else []):
        content = token.get("content") if isinstance(token, dict) else token
        if isinstance(content, str) and content and content not in added:
            flags = {key: bool(token[key]) for key in _FLAGS if key in token} \
                if isinstance(token, dict) else {"normalized": False}
            tokenizer.add_tokens([tokenizers.AddedToken(content, special=True, **flags)])
            added.add(content)
    return named_tokens(told)


def _decoder_tokens(folder: str, settings: dict):
    decoder = settings.get("added_tokens_decoder", {})
    try:
        for token_id, token in decoder.items():
            flags = {key: token[key] for key in (*_FLAGS, "special") if key in token}
            yield int(token_id), tokenizers.AddedToken(token["content"], **flags)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ToolError(f"{os.path.join(folder, 'tokenizer_config.json')}: 'added_tokens_decoder' is "
                        "no map of ids to tokens", exit_code=CONFIG) from None


def _legacy_tokens(folder: str, told: dict) -> dict[int, tokenizers.AddedToken]:
    """added_tokens.json: {token: id}"""
    special = set(named_tokens(told).values())
    tokens = {}
    for content, token_id in read_settings(folder, "added_tokens.json").items():
        if not isinstance(token_id, int):
            raise ToolError(f"{os.path.join(folder, 'added_tokens.json')}: the id of '{content}' is "
                            f"{token_id!r}, wanted an integer", exit_code=CONFIG)
        tokens[token_id] = tokenizers.AddedToken(content, normalized=content not in special,
                                                 special=content in special)
    return tokens


def read_settings(folder: str, name: str) -> dict:
    """A JSON object, empty where there is no such file."""
    return read_object(os.path.join(folder, name), CONFIG)


class TokenizerVariants:
    """Variants of the tokenizer: for text that does not begin a document, and for text in which names of
    special tokens are plain text."""

    def __init__(self, loaded: LoadedTokenizer, control_tokens: set[str]):
        self._base = loaded.tokenizer
        self._control = control_tokens
        self._added = re.compile(rf"(?:{_either(loaded)})\Z")
        self._made: dict[tuple[bool, bool], tokenizers.Tokenizer] = {}
        steps = [_description(step) for step in (self._base.normalizer, self._base.pre_tokenizer)]
        self.has_dummy_space = any(_stripped(step) != step for step in steps)
        self._after_tokens = self.has_dummy_space and self._dummy_after_tokens(loaded)

    def _dummy_after_tokens(self, loaded: LoadedTokenizer) -> bool:
        """True when the tokenizer also adds its space to text after an added token."""
        token = next((token.content for token in loaded.added_tokens.values()
                      if not token.rstrip and not token.single_word), None)
        if token is None:
            return False
        alone = self._base.encode("a", add_special_tokens=False).ids
        return self._base.encode(token + "a", add_special_tokens=False).ids[-len(alone):] == alone

    def after(self, before: str, literal: bool = False) -> tokenizers.Tokenizer:
        """The tokenizer for text that follows `before`. It adds the space at the begin of a document only
        where the tokenizer adds it there too. `literal`: names of control tokens are plain text."""
        begins = not self.has_dummy_space or not before or \
            (self._after_tokens and bool(self._added.search(before[-TAIL:])))
        if (begins, literal) not in self._made:
            self._made[begins, literal] = self._make(begins, literal)
        return self._made[begins, literal]

    def _make(self, with_space: bool, literal: bool) -> tokenizers.Tokenizer:
        if with_space and not literal:
            return self._base
        description = json.loads(self._base.to_str())
        if not with_space:
            for step in ("normalizer", "pre_tokenizer"):
                description[step] = _stripped(description.get(step))
        if literal:
            for token in description["added_tokens"]:
                token["special"] = token["content"] in self._control
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(description))
        tokenizer.encode_special_tokens = literal
        return tokenizer


def _either(loaded: LoadedTokenizer) -> str:
    parts = [re.escape(token.content) + (r"\s*" if token.rstrip else "")
             for token in loaded.added_tokens.values()]
    return "|".join(sorted(parts, key=len, reverse=True)) or r"(?!)"


def _description(step) -> dict | None:
    return None if step is None else json.loads(step.__getstate__())


def _stripped(step: dict | None) -> dict | None:
    """Removes the steps that add a space before a text: Prepend (normalizer), Metaspace, ByteLevel."""
    if step is None or step["type"] == "Prepend":
        return None
    step = dict(step)
    if step["type"] == "Sequence":
        name = "normalizers" if "normalizers" in step else "pretokenizers"
        step[name] = [inner for inner in map(_stripped, step[name]) if inner is not None]
    elif step["type"] == "Metaspace":
        step["prepend_scheme"] = "never"
        step.pop("add_prefix_space", None)
    elif step["type"] == "ByteLevel":
        step["add_prefix_space"] = False
    return step

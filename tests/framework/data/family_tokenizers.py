"""Tiny tokenizers of the kinds that model families have, for tests. They cover all of Unicode in a few hundred
tokens. They have merges where they matter: line feeds, spaces, characters next to roles."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors)

# Pieces of a pre-tokenizer: words with the space before them, line feeds with the text that they follow.
LLAMA3_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN_PIECES = LLAMA3_PIECES.replace(r"\p{N}{1,3}", r"\p{N}")  # digit by digit
# Those with line feeds first: what stands before one takes it where it can.
WORDS = ["|>", "|>\n", "|>\n\n", ">\n", ">\n\n", ".\n", ".\n\n", " \n", "\n\n", "\n\n\n", "  ", "    ",
         "the", " the", " a", " heron", "heron", " bird", "ing", " is", "[/", " [/", ": ", '{"', '"}', '": "']


@dataclass(frozen=True, slots=True)
class Token:
    """An added token, with the flags of tokenizer.json."""
    content: str
    special: bool = True
    lstrip: bool = False
    rstrip: bool = False

    def added(self) -> AddedToken:
        return AddedToken(self.content, special=self.special, lstrip=self.lstrip, rstrip=self.rstrip,
                          normalized=False)


# ---- the tokens of families, with the flags that they are published with

def _special(*contents: str) -> tuple[Token, ...]:
    return tuple(Token(content) for content in contents)


def _words(*contents: str) -> tuple[Token, ...]:
    """Added tokens that are not flagged special."""
    return tuple(Token(content, special=False) for content in contents)


LLAMA2 = _special("<unk>", "<s>", "</s>")
LLAMA3 = _special("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
LLAMA31 = LLAMA3 + _special("<|eom_id|>", "<|python_tag|>")
QWEN25 = _special("<|endoftext|>", "<|im_start|>", "<|im_end|>") + _words("<tool_call>", "</tool_call>")
QWEN3 = QWEN25 + _words("<tool_response>", "</tool_response>", "<think>", "</think>")
GEMMA = _special("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>") + _words("\n\n", "\n\n\n")
MISTRAL3 = LLAMA2 + _special("[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
                             "[TOOL_RESULTS]", "[/TOOL_RESULTS]")
MISTRAL7 = MISTRAL3 + _special("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[IMG]")
PHI3 = LLAMA2 + (Token("<|endoftext|>"),) + tuple(
    Token(content, rstrip=True) for content in ("<|assistant|>", "<|system|>", "<|end|>", "<|user|>"))
PHI4 = tuple(Token(content, lstrip=True, rstrip=True) for content in
             ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_sep|>"))
GRANITE = _special("<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>")
DEEPSEEK = _special("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>") + _words(
    "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜tool▁outputs▁begin｜>",
    "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>")
GPT_OSS = _special("<|startoftext|>", "<|endoftext|>", "<|return|>", "<|start|>", "<|end|>", "<|message|>",
                   "<|channel|>", "<|call|>", "<|constrain|>")
GLM4 = _special("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")
COMMAND_R = _special("<PAD>", "<BOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>",
                     "<|CHATBOT_TOKEN|>", "<|SYSTEM_TOKEN|>")
OLMO2 = _special("<|endoftext|>", "<|pad|>")
CHATML = _special("<|endoftext|>", "<|im_start|>", "<|im_end|>")


# ---- kinds of tokenizers

def _merged(symbols: list[str], words: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A vocabulary and the merges that make each word, from its beginning on."""
    merges: list[tuple[str, str]] = []
    for word in words:
        for end in range(1, len(word)):
            if (pair := (word[:end], word[end])) not in merges:
                merges.append(pair)
    vocabulary = {symbol: number for number, symbol in enumerate(symbols)}
    for first, second in merges:
        vocabulary.setdefault(first + second, len(vocabulary))
    return vocabulary, merges


def _as_bytes(word: str) -> str:
    """In the alphabet of byte-level tokenizers."""
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(word)
    return "".join(piece for piece, _ in pieces)


def _byte_level(pattern: str | None, normalizer=None, trim_offsets: bool = False) -> Tokenizer:
    """`pattern`: None for GPT-2's own."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary, merges = _merged(alphabet, [_as_bytes(word) for word in WORDS])
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    split = [] if pattern is None else [pre_tokenizers.Split(Regex(pattern), "isolated")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)])
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim_offsets)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


SPACE = "▁"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LETTERS = [SPACE, "\n", *map(chr, range(33, 127)), *"éüñßøçÅ"]
PIECES = [word.replace(" ", SPACE) for word in WORDS]
# A space at the front of a text goes with those that were written there.
FRONTS = [SPACE * 2, SPACE + "<", SPACE + "["]


def _pieces(unknown: str = "<unk>") -> Tokenizer:
    """Like BPE of sentencepiece: text outside the vocabulary falls back to bytes."""
    vocabulary, merges = _merged([unknown, *BYTES, *LETTERS], PIECES + FRONTS)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token=unknown,
                                     byte_fallback=True, fuse_unk=True))
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(),
                                           decoders.Fuse()])
    return tokenizer


def _metaspace() -> Tokenizer:
    tokenizer = _pieces()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="first",
                                                       split=False)
    return tokenizer


def _metaspace_legacy() -> Tokenizer:
    tokenizer = _pieces()
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE),
                                                 normalizers.Replace(" ", SPACE)])
    return tokenizer


def _byte_fallback() -> Tokenizer:
    """Gemma's: nothing before a text, spaces cut pieces."""
    tokenizer = _pieces()
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return tokenizer


def _unigram() -> Tokenizer:
    """Compatibility forms become plain ones (ﬁ two letters), so that offsets and lengths differ."""
    vocabulary = [("<unk>", 0.0)] + [(byte, -20.0) for byte in BYTES]
    vocabulary += [(letter, -8.0) for letter in LETTERS]
    vocabulary += [(piece, -4.0 - 0.5 * len(piece)) for piece in dict.fromkeys(PIECES + FRONTS)
                   if piece not in LETTERS]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(),
                                           decoders.Metaspace(replacement=SPACE, prepend_scheme="always")])
    return tokenizer


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "byte_level": lambda: _byte_level(LLAMA3_PIECES),
    "byte_level_gpt2": lambda: _byte_level(None),
    "byte_level_nfc": lambda: _byte_level(QWEN_PIECES, normalizers.NFC()),
    "byte_level_trimmed": lambda: _byte_level(None, trim_offsets=True),  # offsets leave spaces out
    "metaspace": _metaspace,
    "metaspace_legacy": _metaspace_legacy,
    "byte_fallback": _byte_fallback,
    "unigram": _unigram,
}


def make_tokenizer(kind: str, tokens: tuple[Token, ...], bos: str | None) -> Tokenizer:
    """`bos`: the token that the tokenizer itself puts before a text, if any."""
    tokenizer = KINDS[kind]()
    for token in tokens:  # one by one: in a list, those that are not special come first
        tokenizer.add_tokens([token.added()])
    if bos is not None:
        begins = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1",
            special_tokens=[(bos, tokenizer.token_to_id(bos))])
        before = tokenizer.post_processor
        tokenizer.post_processor = begins if before is None else processors.Sequence([before, begins])
    return tokenizer


def save_tokenizer(folder: Path, tokenizer: Tokenizer):
    tokenizer.save(str(folder / "tokenizer.json"))

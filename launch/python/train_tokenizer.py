#!/usr/bin/env python3
"""Trains a byte-level BPE tokenizer, in the form GPT-2 made common, on text and JSONL, and saves a
folder that `transformers.AutoTokenizer` and `packtrain prepare` load."""

import json
import os
import sys
from collections.abc import Iterator

from packtrain_tools.environment import use_environment
from packtrain_tools.errors import Parser, ToolError, run_main
from packtrain_tools.sources.formats import read_texts
from packtrain_tools.sources.files import list_files

PROGRAM = "train_tokenizer"
use_environment(PROGRAM, "tokenizers")
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402

END_OF_TEXT = "<|endoftext|>"
NUM_BYTES = 256


def parse_arguments():
    parser = Parser(prog=PROGRAM, description="Train a byte-level BPE tokenizer.")
    parser.add_argument("sources", nargs="+", metavar="SOURCE",
                        help="what `packtrain prepare` reads: text, .jsonl, folders of them")
    parser.add_argument("--vocab-size", type=int, default=4096, metavar="N")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    parser.add_argument("--separator", metavar="LINE",
                        help="text files hold several documents, divided by lines of only this")
    arguments = parser.parse_args()
    if arguments.vocab_size <= NUM_BYTES:
        parser.error(f"--vocab-size is {arguments.vocab_size}, wanted at least {NUM_BYTES + 1}: "
                     f"the bytes and {END_OF_TEXT}")
    return arguments


def all_texts(sources: list[str], separator: str | None) -> Iterator[str]:
    files, _ = list_files(sources)
    for text in read_texts(files, separator):
        if text.prompt:
            yield text.prompt
        yield text.text


def train(texts: Iterator[str], vocab_size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=[END_OF_TEXT],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save(tokenizer: Tokenizer, folder: str):
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise ToolError(f"{folder}: exists and is not empty", "Give another folder.")
    # Written directly, with a class name that every version of transformers knows.
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "clean_up_tokenization_spaces": False,
    }
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as stream:
        json.dump(config, stream, indent=2)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))


def main():
    arguments = parse_arguments()
    texts = all_texts(arguments.sources, arguments.separator)
    tokenizer = train(texts, arguments.vocab_size)
    save(tokenizer, arguments.out)
    size = tokenizer.get_vocab_size()
    print(f"{arguments.out}: byte-level BPE, vocabulary of {size:,}")
    if size < arguments.vocab_size:
        print(f"{PROGRAM}: the text has fewer pairs than a vocabulary of "
              f"{arguments.vocab_size:,} needs", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))

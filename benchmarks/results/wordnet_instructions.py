#!/usr/bin/env python3
"""Instructions from WordNet (Debian's package wordnet-base): asked for a word, the answer is its
gloss. JSONL with prompt and completion, divided into training and validation by word.

Each synset is one example, under its first word. So no gloss occurs twice, and all senses of a word are
on one side of the split."""

import argparse
import hashlib
import json
import os

PARTS = {"noun": "noun", "verb": "verb", "adj": "adjective", "adv": "adverb"}


def read_synsets(folder: str):
    """(part of speech, word, gloss) of every synset: wndb(5WN) has the format of data.POS."""
    for suffix, part in PARTS.items():
        with open(os.path.join(folder, f"data.{suffix}"), encoding="utf-8") as stream:
            for line in stream:
                if line.startswith("  "):  # the licence
                    continue
                fields, _, gloss = line.partition(" | ")
                word = fields.split(" ", 5)[4].partition("(")[0]  # adjectives: word(marker)
                yield part, word.replace("_", " "), gloss.strip()


def share(text: str) -> float:
    """A number from 0 to 1 that is a function of the text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


def examples(folder: str):
    """(word, {"prompt", "completion"}) in an order by hash instead of the alphabet's."""
    found = []
    for part, word, gloss in read_synsets(folder):
        record = {"prompt": f"What does the {part} \"{word}\" mean?\n", "completion": gloss}
        found.append((share(f"{part} {word} {gloss}"), word, record))
    found.sort(key=lambda entry: entry[0])
    return [(word, record) for _, word, record in found]


def is_validation(word: str, fraction: float) -> bool:
    return share(f"validation {word.lower()}") < fraction


def write_jsonl(path: str, records):
    with open(path, "w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(record) + "\n" for record in records)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="with data.noun, data.verb, ...: /usr/share/wordnet")
    parser.add_argument("--out", required=True, metavar="FOLDER",
                        help="for train.jsonl and validation.jsonl")
    parser.add_argument("--validation-fraction", type=float, default=0.1, metavar="F")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    sides = {"train": [], "validation": []}
    for word, record in examples(arguments.folder):
        held_out = is_validation(word, arguments.validation_fraction)
        sides["validation" if held_out else "train"].append(record)
    for side, records in sides.items():
        path = os.path.join(arguments.out, f"{side}.jsonl")
        write_jsonl(path, records)
        print(f"{path}: {len(records):,} examples")


if __name__ == "__main__":
    main()

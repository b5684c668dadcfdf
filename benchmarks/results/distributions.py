#!/usr/bin/env python3
"""Four sets of texts that differ in how long their examples are, and two for adapters. Each has a
validation set, as JSONL: OUT/NAME/{train,validation}.jsonl.

    fortunes   short texts with a long tail (Debian's package fortunes)
    wordnet    short and all alike: word -> gloss, loss on the gloss
    long       the long ones of the fortunes alone
    bimodal    short glosses and long fortunes, half of the text each, nothing between
    base       fortunes, and nouns with their glosses as plain text
    definitions  verbs, adjectives and adverbs as in wordnet, for a model trained on base
"""

import argparse
import os

from wordnet_instructions import examples, is_validation, read_synsets, share, write_jsonl

VALIDATION = 0.1
MAX_BYTES = 3000     # of a text; longer ones are left out
LONG_BYTES = 450     # a fortune is long from this size on
SHORT_BYTES = 110    # a gloss is short up to this size
NUM_WORDNET = 22000  # examples; about as many tokens as the fortunes have
NUM_DEFINITIONS = 8000


def read_fortunes(folder: str) -> list[str]:
    """Each text once, in an order of the texts themselves."""
    texts = set()
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if "." in name or not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8") as stream:
            for text in stream.read().split("\n%\n"):
                if 0 < len(text.strip().encode()) <= MAX_BYTES:
                    texts.add(text.strip() + "\n")
    return sorted(texts, key=share)


def size(record: dict) -> int:
    return sum(len(text.encode()) for text in record.values())


def mix(long: list[dict], short: list[dict]) -> list[dict]:
    """Equal amounts of short and long text, in random order. All have the columns of an instruction."""
    wanted = sum(map(size, long))
    chosen = [{"prompt": "", "completion": record["text"]} for record in long]
    for record in short:
        if wanted <= 0:
            break
        chosen.append(record)
        wanted -= size(record)
    return sorted(chosen, key=lambda record: share(str(record)))


def nouns(wordnet_folder: str, held_out: bool) -> list[dict]:
    texts = sorted((f"{word}: {gloss}\n" for part, word, gloss in read_synsets(wordnet_folder)
                    if part == "noun" and is_validation(word, VALIDATION) == held_out), key=share)
    return [{"text": text} for text in texts]


def divide(fortunes_folder: str, wordnet_folder: str) -> dict[str, dict[str, list[dict]]]:
    """{distribution: {side: records}}"""
    sides = {"train": {}, "validation": {}}
    for side, sets in sides.items():
        held_out = side == "validation"
        sets["fortunes"] = [{"text": text} for text in read_fortunes(fortunes_folder)
                            if is_validation(text, VALIDATION) == held_out]
        glosses = [record for word, record in examples(wordnet_folder)
                   if is_validation(word, VALIDATION) == held_out]
        sets["wordnet"] = glosses[:round(NUM_WORDNET * (VALIDATION if held_out else 1))]
        sets["long"] = [record for record in sets["fortunes"] if size(record) >= LONG_BYTES]
        short = [record for record in glosses if size(record) <= SHORT_BYTES]
        sets["bimodal"] = mix(sets["long"], short)
        sets["base"] = sets["fortunes"] + nouns(wordnet_folder, held_out)
        others = [record for record in glosses if "the noun" not in record["prompt"].split('"')[0]]
        sets["definitions"] = others[:round(NUM_DEFINITIONS * (VALIDATION if held_out else 1))]
    return {name: {side: sides[side][name] for side in sides} for name in sides["train"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fortunes", required=True, metavar="FOLDER")
    parser.add_argument("--wordnet", required=True, metavar="FOLDER")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    arguments = parser.parse_args()
    for name, sides in divide(arguments.fortunes, arguments.wordnet).items():
        folder = os.path.join(arguments.out, name)
        os.makedirs(folder, exist_ok=True)
        for side, records in sides.items():
            write_jsonl(os.path.join(folder, f"{side}.jsonl"), records)
            print(f"{name}/{side}: {len(records):,} examples, "
                  f"{sum(map(size, records)):,} bytes")


if __name__ == "__main__":
    main()

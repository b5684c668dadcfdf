#!/usr/bin/env python3
"""Writes JSONL of short prompts and completions out of texts, to time `packtrain prepare` with:
short_examples.py TEXT... > short.jsonl"""

import argparse
import json
import random
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", nargs="+", metavar="TEXT")
    parser.add_argument("--examples", type=int, default=1_000_000, metavar="N")
    arguments = parser.parse_args()
    words = []
    for path in arguments.texts:
        with open(path, encoding="utf-8", errors="replace") as stream:
            words += stream.read().split()
    choose = random.Random(1)
    for _ in range(arguments.examples):
        begin, middle, end = sorted(choose.randrange(60) for _ in range(3))
        at = choose.randrange(len(words) - 60)
        sys.stdout.write(json.dumps({"prompt": " ".join(words[at + begin:at + middle + 1]),
                                     "completion": " " + " ".join(words[at + middle:at + end + 1])})
                         + "\n")


if __name__ == "__main__":
    main()

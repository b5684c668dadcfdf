#!/usr/bin/env python3
"""The entries of the Collaborative International Dictionary of English (Debian's package dict-gcide) as
texts, in a random order: OUT/{train,validation}.jsonl. An entry begins at the left margin after an
empty line. It is in one of the two by its first word."""

import argparse
import gzip
import os
import re

from wordnet_instructions import is_validation, share, write_jsonl

VALIDATION = 0.02
FEWEST_BYTES, MOST_BYTES = 40, 12000  # of an entry


def read_entries(path: str) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as stream:
        entries = re.split(r"\n\n(?=\S)", stream.read())
    kept = {entry.strip() + "\n" for entry in entries
            if FEWEST_BYTES <= len(entry.encode()) <= MOST_BYTES}
    return sorted(kept, key=share)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dictionary", metavar="gcide.dict.dz")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    entries = read_entries(arguments.dictionary)
    for side, held_out in (("train", False), ("validation", True)):
        write_jsonl(os.path.join(arguments.out, f"{side}.jsonl"),
                    ({"text": entry} for entry in entries
                     if is_validation(entry.split()[0], VALIDATION) == held_out))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Cuts text and JSONL of any length into JSONL of short pieces, at line ends where there are some.
A small model can learn them and be measured on them."""

import json
import sys
from collections.abc import Iterator

from packtrain_tools.errors import Parser, run_main
from packtrain_tools.sources.formats import read_texts
from packtrain_tools.sources.files import list_files

PROGRAM = "cut_texts"


def parse_arguments():
    parser = Parser(prog=PROGRAM, description=__doc__)
    parser.add_argument("sources", nargs="+", metavar="SOURCE",
                        help="what `packtrain prepare` reads: text, .jsonl, folders of them")
    parser.add_argument("--out", required=True, metavar="FILE.jsonl")
    parser.add_argument("--max-bytes", type=int, default=1500, metavar="N",
                        help="of a piece; a byte-level token has at least one (default 1500)")
    return parser.parse_args()


def pieces(text: str, max_bytes: int) -> Iterator[str]:
    """Runs of whole lines of at most max_bytes in UTF-8; a longer line is cut where it must be."""
    piece = b""
    for line in text.encode().splitlines(keepends=True):
        if piece and len(piece) + len(line) > max_bytes:
            yield piece.decode()
            piece = b""
        while len(line) > max_bytes:
            cut = max_bytes
            while line[cut] & 0xC0 == 0x80:  # inside a character
                cut -= 1
            yield line[:cut].decode()
            line = line[cut:]
        piece += line
    if piece.strip():
        yield piece.decode()


def main():
    arguments = parse_arguments()
    num_pieces = num_left_out = 0
    files, _ = list_files(arguments.sources)
    with open(arguments.out, "w", encoding="utf-8") as stream:
        for text in read_texts(files, None):
            if text.prompt is None:
                records = [{"text": piece} for piece in pieces(text.text, arguments.max_bytes)]
            elif len(text.prompt.encode()) + len(text.text.encode()) <= arguments.max_bytes:
                records = [{"prompt": text.prompt, "completion": text.text}]
            else:
                records = []
                num_left_out += 1
            stream.writelines(json.dumps(record) + "\n" for record in records)
            num_pieces += len(records)
    print(f"{arguments.out}: {num_pieces:,} pieces of at most {arguments.max_bytes:,} bytes")
    if num_left_out:
        print(f"left out {num_left_out:,} prompts with completions that are longer")


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))

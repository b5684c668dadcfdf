#!/usr/bin/env python3
"""Text and JSONL to token stores: `packtrain prepare SOURCE... --tokenizer PATH --out STORE`."""

import json
import os
import sys

from packtrain_tools.encoding import Encoder, Example, encode_all
from packtrain_tools.errors import Parser, run_main
from packtrain_tools.progress import Progress
from packtrain_tools.sources import SourceFile, list_files, read_records
from packtrain_tools.store import StoreWriter

PROGRAM = "packtrain prepare"


def parse_arguments():
    parser = Parser(prog=PROGRAM, description="Tokenise text and JSONL into a token store.")
    parser.add_argument("sources", nargs="+", metavar="SOURCE",
                        help="a text file, a .jsonl file (lines with 'text', or with 'prompt' and "
                             "'completion', of which only the completion is learned), or a folder "
                             "of such files")
    parser.add_argument("--tokenizer", required=True, metavar="PATH",
                        help="a Hugging Face folder with tokenizer.json")
    parser.add_argument("--out", required=True, metavar="STORE", help="the folder to write")
    parser.add_argument("--separator", metavar="LINE",
                        help="text files hold several documents, divided by lines of only this, "
                             "such as '%%' in files of fortunes (default: one document a file)")
    parser.add_argument("--max-examples", type=int, metavar="N", help="stop after N examples")
    parser.add_argument("--validation-fraction", type=float, metavar="F",
                        help="put about this share of the examples, drawn at random, into "
                             "--validation-out instead")
    parser.add_argument("--validation-out", metavar="STORE")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="processes (default: one a core); the stores do not depend on it")
    parser.add_argument("--overwrite", action="store_true", help="replace stores that exist")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    arguments = parser.parse_args()
    if arguments.workers < 1:
        parser.error(f"--workers is {arguments.workers}, wanted at least 1")
    if arguments.max_examples is not None and arguments.max_examples < 1:
        parser.error(f"--max-examples is {arguments.max_examples}, wanted at least 1")
    if (arguments.validation_fraction is None) != (arguments.validation_out is None):
        parser.error("--validation-fraction and --validation-out need each other")
    if arguments.validation_fraction is not None:
        if not 0.0 < arguments.validation_fraction < 1.0:
            parser.error(f"--validation-fraction is {arguments.validation_fraction}, wanted a "
                         "number between 0 and 1")
        if os.path.realpath(arguments.out) == os.path.realpath(arguments.validation_out):
            parser.error("--out and --validation-out are the same folder")
    return arguments


def is_held_out(index: int, fraction: float) -> bool:
    """A coin of its own for every example: the same split whatever else is asked for.
    Mixing function: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    mask = 2**64 - 1
    z = (index + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return (z ^ z >> 31) < fraction * 2.0**64


def write_stores(arguments, encoder: Encoder, files: list[SourceFile]) -> dict:
    def create(folder: str) -> StoreWriter:
        return StoreWriter(folder, arguments.tokenizer, encoder.vocab_size, arguments.sources,
                           arguments.overwrite)

    stores = [create(arguments.out)]
    if arguments.validation_out:
        stores.append(create(arguments.validation_out))
    records = (record for file in files for record in read_records(file, arguments.separator))
    progress = Progress(sum(file.num_bytes for file in files))
    num_examples = 0
    num_skipped = 0

    def add(example: Example):
        nonlocal num_examples
        held_out = len(stores) > 1 and is_held_out(num_examples, arguments.validation_fraction)
        stores[1 if held_out else 0].add(example)
        num_examples += 1

    try:
        for chunk in encode_all(encoder, records, arguments.workers):
            left = (arguments.max_examples or sys.maxsize) - num_examples
            for example in chunk.examples[:left]:
                add(example)
            num_skipped += chunk.num_skipped
            progress.add(chunk.num_bytes, len(chunk.examples),
                         sum(len(example.input_ids) for example in chunk.examples))
            if len(chunk.examples) >= left:
                break
    finally:
        progress.close()
    return {"stores": [store.finish() for store in stores], "num_skipped": num_skipped}


def print_summary(summary: dict):
    for store in summary["stores"]:
        length = store["length"]
        print(f"{store['path']}: {store['num_examples']:,} examples, "
              f"{store['num_tokens']:,} tokens ({store['num_loss_tokens']:,} to predict), "
              f"vocabulary of {store['vocab_size']:,}")
        print(f"  tokens an example: min {length['min']:,}, median {length['median']:,.1f}, "
              f"mean {length['mean']:,.1f}, p99 {length['p99']:,.1f}, max {length['max']:,}")
    if summary["num_skipped"]:
        print(f"skipped {summary['num_skipped']:,} documents with nothing to predict")


def main():
    arguments = parse_arguments()
    encoder = Encoder(arguments.tokenizer)
    files, left_out = list_files(arguments.sources)
    if left_out:
        kinds = ", ".join(f"{count:,} *{suffix}" for suffix, count in sorted(left_out.items()))
        print(f"{PROGRAM}: left out files of other kinds: {kinds}", file=sys.stderr)
    summary = write_stores(arguments, encoder, files)
    if arguments.json:
        print(json.dumps(summary))
    else:
        print_summary(summary)


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))

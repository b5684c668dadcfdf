#!/usr/bin/env python3
"""Turns a configuration of axolotl, LLaMA-Factory or TRL (`trl sft`) into one of packtrain. Lists each key,
carried or not and why, and the `prepare` commands that its data sets become."""

import argparse
import os
import subprocess
import sys
import tempfile

from packtrain_tools.errors import CONFIG, Parser, ToolError, run_main
from packtrain_tools.importing.kinds import NAMES, convert, recognise
from packtrain_tools.importing.reading import read_configuration
from packtrain_tools.importing.writing import to_json, to_text, to_yaml
from packtrain_tools.sweep_runs import write_atomically

PROGRAM = "packtrain import"


def parse_arguments():
    parser = Parser(prog=PROGRAM, description=__doc__)
    parser.add_argument("file", metavar="FILE", help="their configuration, YAML or JSON")
    parser.add_argument("--out", metavar="CONFIG", help="the file to write (default: standard output, and the list on "
                                                        "standard error)")
    parser.add_argument("--from", dest="kind", choices=list(NAMES), help="whose it is (default: found by its keys)")
    parser.add_argument("--ranks", type=int, default=1, metavar="N",
                        help="GPUs of the run there, by which the batch of one is multiplied (default: 1)")
    parser.add_argument("--overwrite", action="store_true", help="replace a file CONFIG that exists")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    parser.add_argument("--program", help=argparse.SUPPRESS)  # packtrain itself, which checks the result
    arguments = parser.parse_args()
    if not 1 <= arguments.ranks <= 1_000_000:
        parser.error(f"--ranks is {arguments.ranks}, wanted a number from 1 to 1000000")
    if arguments.out == "":
        parser.error("--out is empty, wanted a file")
    return arguments


def find_faults(program: str | None, text: str) -> str:
    """What `packtrain config` says against the result; empty where it takes it."""
    if program is None:
        return ""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([program, "config", file.name], capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stderr.replace(file.name, "the result").strip()


def main():
    arguments = parse_arguments()
    if arguments.out and os.path.exists(arguments.out) and not arguments.overwrite:
        raise ToolError(f"{arguments.out}: exists", "Give another file, or --overwrite.", CONFIG)
    values = read_configuration(arguments.file)
    kind = arguments.kind or recognise(values, arguments.file)
    conversion = convert(values, arguments.file, kind, arguments.ranks)
    origin = f"# From {os.path.basename(arguments.file)} of {conversion.kind}, by `packtrain import`.\n"
    text = origin + to_yaml(conversion)
    faults = find_faults(arguments.program, text)
    listed = to_json(conversion) + "\n" if arguments.json else to_text(conversion, arguments.out or "CONFIG")
    if arguments.out:
        write_atomically(arguments.out, text)
        print(listed, end="")
    else:
        print(listed, end="", file=sys.stderr)
        print(text, end="")
    if faults:
        raise ToolError(f"what was written is not a configuration yet:\n  {faults}", "Correct it by hand.", CONFIG)


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))

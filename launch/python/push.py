#!/usr/bin/env python3
"""Uploads a model or adapter to the Hugging Face Hub, with a model card: data with digests, configuration, losses and
curves of its run."""

import argparse
import json
import os
import subprocess
import sys

from packtrain_tools.errors import CONFIG, DATA, Parser, ToolError, run_main
from packtrain_tools.hub_model import parse_name
from packtrain_tools.program import find_program
from packtrain_tools.pushing.card import CONFIG_FILE, CURVES, base_of, make_card
from packtrain_tools.pushing.facts import RunFacts, curves, find_run, public_config, read_facts
from packtrain_tools.pushing.upload import ADAPTER_CONFIG, list_files, read_adapter, upload

PROGRAM = "packtrain push"
CARD = "README.md"


def parse_arguments() -> argparse.Namespace:
    parser = Parser(prog=PROGRAM, description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", help="what `packtrain export`, `merge` or `tune` wrote")
    parser.add_argument("name", metavar="hf:OWNER/NAME[@BRANCH]",
                        help="the repository, made where it does not exist")
    parser.add_argument("--run", metavar="RUN", help="the run that the card is about (default: the folder `run` next "
                                                     "to FOLDER, if there is one)")
    parser.add_argument("--base", metavar="hf:OWNER/NAME",
                        help="the model before training (default: the run's model.path)")
    parser.add_argument("--private", action="store_true", help="make a repository that others cannot see")
    parser.add_argument("--message", default="Upload from packtrain", metavar="TEXT", help="of the commit")
    parser.add_argument("--card-only", action="store_true", help="print the card, and upload nothing")
    parser.add_argument("--program", help=argparse.SUPPRESS)
    return parser.parse_args()


def version_of(program: str) -> str:
    """packtrain 0.1.0"""
    done = subprocess.run([program, "version"], capture_output=True, text=True, check=True)
    return " ".join(done.stdout.split()[:2])


def own_card(folder: str) -> str | None:
    """A card that the folder holds already."""
    path = os.path.join(folder, CARD)
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as stream:
        content = stream.read()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"{path}: is not UTF-8, which the hub wants: {error.reason}", exit_code=DATA) from None


def contents(folder: str, names: list[str], adapter: dict, base: str, card: str,
             run: RunFacts | None) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {name: os.path.join(folder, name) for name in names}
    if adapter:  # a path of this machine would be of no use to others
        files[ADAPTER_CONFIG] = (json.dumps({**adapter, "base_model_name_or_path": base}, indent=2) + "\n").encode()
    files[CARD] = card.encode()
    if run is not None:
        files[CONFIG_FILE] = public_config(run.config).encode()
        image = curves(run.history)
        if image:
            files[CURVES] = image.encode()
    return files


def main():
    arguments = parse_arguments()
    repository, branch = parse_name(arguments.name)
    if arguments.base is not None:
        parse_name(arguments.base)
    if not os.path.isdir(arguments.folder):
        raise ToolError(f"{arguments.folder}: is no folder", exit_code=CONFIG)
    names, left = list_files(arguments.folder)
    adapter = read_adapter(arguments.folder)
    place = find_run(arguments.folder, arguments.run)
    run = None if place is None else read_facts(place)
    base = base_of(arguments.base, run, adapter)
    card = own_card(arguments.folder) or make_card(repository, bool(adapter), base,
                                                   version_of(find_program(arguments.program)), run)
    if arguments.card_only:
        print(card, end="")
        return
    if adapter and not base.is_on_hub:
        raise ToolError(f"{arguments.folder}: is an adapter of a model that is not on the hub: {base.name}",
                        "Name its model with --base hf:OWNER/NAME.", CONFIG)
    for text in ([] if run else ["the card is about no run: --run RUN adds data, losses and configuration"]) + \
            ([f"not uploaded: {', '.join(left)}"] if left else []):
        print(f"{PROGRAM}: {text}", file=sys.stderr)
    files = contents(arguments.folder, names, adapter, base.name, card, run)
    address = upload(repository, branch, arguments.private, arguments.message, files)
    print(f"{address}: {len(files)} files")


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))

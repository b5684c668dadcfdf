#!/usr/bin/env python3
"""Downloads the model and prepares the data that a configuration names, for the commands that read configurations.
The answer is a JSON object: {"model": FOLDER, "data": {NAME: STORE}}, or {"error", "advice", "exit_code"}."""

import argparse
import json
import os
import signal
import sys

from packtrain_tools.errors import CONFIG, Parser, ToolError, run_main
from packtrain_tools.folder_lock import lock
from packtrain_tools.hub_model import is_hub_name, model_folder, tokenizer_folder
from packtrain_tools.program import end_with_parent
from packtrain_tools.prepared import files_of, is_store, prepare, prepared_folder

PROGRAM = "packtrain"
NOT_HERE = ("--validation-", "--tokenizer", "--out", "--overwrite")  # of `packtrain prepare`


def parse_arguments() -> argparse.Namespace:
    parser = Parser(prog=PROGRAM, description=__doc__)
    parser.add_argument("--answer", required=True, metavar="FILE", help="where the answer is written")
    parser.add_argument("--program", required=True, help="packtrain itself")
    parser.add_argument("--model", metavar="hf:OWNER/NAME[@REVISION]", help="is downloaded")
    parser.add_argument("--data", action="append", default=[], metavar="NAME", help="a store is made of it")
    parser.add_argument("--tokenizer", metavar="MODEL", help="a folder or a name on the hub")
    parser.add_argument("--stores", metavar="DIR", help="where stores are made")
    parser.add_argument("--option", action="append", default=[], help="of `packtrain prepare`")
    return parser.parse_args()


def store_of(name: str, arguments: argparse.Namespace, tokenizer: str) -> str:
    files = files_of([name])
    place = prepared_folder(files, tokenizer, arguments.option, arguments.stores)
    store = os.path.join(place, "all")
    if not is_store(store):
        print(f"{PROGRAM}: making a token store of {name}: {store}", file=sys.stderr)
        prepare(arguments.program, [name], tokenizer, arguments.option, ["--out", store])
    return store


def answer(arguments: argparse.Namespace) -> dict:
    refused = [option for option in arguments.option if option.startswith(NOT_HERE)]
    if refused:
        raise ToolError(f"data.prepare_options has {refused[0]}, which the configuration says elsewhere",
                        "data.validation names held-out data; data.prepared_path says where stores are made.", CONFIG)
    found: dict = {"data": {}}
    if arguments.model:
        found["model"] = model_folder(arguments.model)
    if not arguments.data:
        return found
    tokenizer = arguments.tokenizer
    if is_hub_name(tokenizer):
        tokenizer = found.get("model") or tokenizer_folder(tokenizer)
    with lock(arguments.stores, "packtrain", "", waits=True):
        for name in dict.fromkeys(arguments.data):
            found["data"][name] = store_of(name, arguments, tokenizer)
    return found


def main():
    end_with_parent(signal.SIGTERM)  # Ctrl-C reaches the command alone
    arguments = parse_arguments()
    try:
        found = answer(arguments)
    except ToolError as error:
        found = {"error": error.message, "advice": error.advice, "exit_code": error.exit_code}
    with open(arguments.answer, "w", encoding="utf-8") as stream:
        json.dump(found, stream)


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))

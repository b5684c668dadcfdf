#!/usr/bin/env python3
"""Scores a model on tasks of lm_eval (lm-evaluation-harness) whose answers are given texts: packtrain computes their
log-likelihoods in packed batches. Without --tasks, `packtrain score` writes log-probabilities of a store."""

import argparse
import importlib.util
import json
import os
import sys
import tempfile

from packtrain_tools.errors import CONFIG, MISSING, Parser, ToolError, run_main
from packtrain_tools.hub_model import is_hub_name
from packtrain_tools.program import find_program
from packtrain_tools.sweep_runs import write_atomically
from packtrain_tools.talk.folders import ADAPTER, base_of_adapter, find_folders, has
from packtrain_tools.tuning.settings import is_setting

PROGRAM = "packtrain score"
LEAST = {"num_fewshot": 0, "max_length": 1, "ranks": 1}  # of numbers


def make_parser() -> Parser:
    parser = Parser(prog=PROGRAM, description=__doc__, epilog="section.key=value changes any key of the configuration, "
                    "such as batch.max_tokens_per_micro_batch=32768.")
    parser.add_argument("model", metavar="MODEL", help="a Hugging Face folder, hf:OWNER/NAME, a PEFT folder, or a "
                                                       "run's folder or one of its checkpoints")
    parser.add_argument("settings", nargs="*", metavar="section.key=value", help="settings of packtrain")
    parser.add_argument("--tasks", required=True, metavar="TASK,...", help="names in lm_eval; `lm_eval ls tasks` lists "
                                                                           "them")
    parser.add_argument("--limit", type=float, metavar="N", help="documents of each task; below 1: a fraction")
    parser.add_argument("--num-fewshot", type=int, metavar="N", help="examples before each document")
    parser.add_argument("--out", metavar="FILE", help="write the results as JSON")
    parser.add_argument("--include-path", metavar="DIR", help="a folder with tasks of your own")
    parser.add_argument("--adapter", metavar="DIR", help="a PEFT folder, added to the model; of a run with several "
                                                         "adapters: the name of one")
    parser.add_argument("--best", action="store_true", help="of a run: the checkpoint of the lowest validation loss")
    parser.add_argument("--dtype", choices=["auto", "bfloat16", "float32"], default="auto",
                        help="default: bfloat16 on GPUs, else float32")
    parser.add_argument("--max-length", type=int, metavar="N", help="tokens of an input (default: the model's most)")
    parser.add_argument("--apply-chat-template", action="store_true", help="write documents as conversations")
    parser.add_argument("--ranks", type=int, metavar="N", help="processes (default: one for each GPU, else one)")
    parser.add_argument("--program", help=argparse.SUPPRESS)
    return parser


def parse_arguments() -> argparse.Namespace:
    parser = make_parser()
    if "--help" in sys.argv:  # also after --tasks without a value
        parser.parse_args(["--help"])
    arguments = parser.parse_intermixed_args()
    for word in arguments.settings:
        if not is_setting(word):
            parser.error(f"got {word}, wanted section.key=value")
    for name, least in LEAST.items():
        value = getattr(arguments, name)
        if value is not None and value < least:
            parser.error(f"--{name.replace('_', '-')} is {value}, wanted at least {least}")
    if arguments.limit is not None and not arguments.limit > 0:
        parser.error(f"--limit is {arguments.limit:g}, wanted a number above 0")
    return arguments


def find_model(arguments: argparse.Namespace, program: str, work: str) -> dict[str, str]:
    """The model's arguments in lm_eval. A run is exported into `work`."""
    source, adapter = arguments.model, arguments.adapter
    if not is_hub_name(source):
        if not os.path.isdir(source):
            raise ToolError(f"{source}: is no folder", "Give a Hugging Face folder, hf:OWNER/NAME, or a run.", CONFIG)
        if has(source, ADAPTER) and not adapter:
            return {"pretrained": base_of_adapter(source, None), "peft": source,
                    **({"tokenizer": source} if has(source, "tokenizer.json") else {})}
        if not has(source, "config.json"):
            return {"pretrained": find_folders(program, source, adapter, None, arguments.best, work).model}
    if arguments.best:
        raise ToolError(f"--best is of runs, and {source} is a model", exit_code=CONFIG)
    return {"pretrained": source, **({"peft": adapter} if adapter else {})}


def main():
    arguments = parse_arguments()
    if importlib.util.find_spec("lm_eval") is None:
        raise ToolError("there is no Python package lm_eval",
                        f"Install it: {sys.executable} -m pip install lm_eval==0.4.13", MISSING)
    from packtrain_tools.scoring.tasks import evaluate
    program = find_program(arguments.program)
    with tempfile.TemporaryDirectory(prefix="packtrain-score-") as work:
        model = {**find_model(arguments, program, work), "program": program, "dtype": arguments.dtype,
                 "max_length": arguments.max_length, "ranks": arguments.ranks, "settings": ";".join(arguments.settings)}
        table, results = evaluate(model, arguments.tasks.split(","), arguments.include_path,
                                  limit=arguments.limit, num_fewshot=arguments.num_fewshot,
                                  apply_chat_template=arguments.apply_chat_template)
    if arguments.out:
        write_atomically(arguments.out, json.dumps(results, indent=2, default=str) + "\n")
    print(table)


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))

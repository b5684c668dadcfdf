#!/usr/bin/env python3
"""Trains a model on data in one command: prepares stores, evaluates, trains, evaluates again, and exports the model or
an adapter. It writes what it chose as DIR/config.yaml. Started again, it continues."""

import argparse
import os
import shlex
import sys

from packtrain_tools.errors import CONFIG, STOPPED, Parser, ToolError, run_main
from packtrain_tools.folder_lock import lock
from packtrain_tools.hub_model import is_hub_name, model_folder
from packtrain_tools.program import LAUNCHER, find_program, run_program, run_stoppable
from packtrain_tools.run_figures import read_history
from packtrain_tools.sweep_runs import count_gpus, write_atomically
from packtrain_tools.tuning import settings as chosen
from packtrain_tools.tuning.stores import Stores, prepare_stores

PROGRAM = "packtrain tune"


def parse_arguments() -> argparse.Namespace:
    parser = Parser(prog=PROGRAM, description=__doc__, epilog="section.key=value changes any key of the configuration, "
                    "such as run.num_epochs=1 or optimizer.learning_rate=1.0e-4.")
    parser.add_argument("model", metavar="MODEL", help="a Hugging Face folder, or hf:OWNER/NAME[@REVISION]")
    parser.add_argument("words", nargs="+", metavar="DATA|section.key=value",
                        help="files, folders or data sets (hf:OWNER/NAME) that `packtrain prepare` reads, and settings")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder for all that is written")
    parser.add_argument("--lora", action="store_true", help="train an adapter; without it the whole model")
    parser.add_argument("--ranks", type=int, metavar="N", help="processes (default: one for each GPU, else one)")
    parser.add_argument("--stores", metavar="DIR", help="where prepared data is kept (default: DIR/stores)")
    parser.add_argument("--prepare", default="", metavar="OPTIONS",
                        help="options of `packtrain prepare`, as one word: --prepare='--train-on last'")
    parser.add_argument("--program", help=argparse.SUPPRESS)
    arguments = parser.parse_intermixed_args()  # options may stand between words
    arguments.settings = [word for word in arguments.words if chosen.is_setting(word)]
    arguments.data = [word for word in arguments.words if not chosen.is_setting(word)]
    if not arguments.data:
        parser.error("got no DATA: a file, a folder or a data set of the hub")
    if not arguments.out:
        parser.error("--out is empty, wanted a folder")
    if arguments.ranks is not None and not 1 <= arguments.ranks <= 1024:
        parser.error(f"--ranks is {arguments.ranks}, wanted a number from 1 to 1024")
    return arguments


def prepare(arguments: argparse.Namespace, program: str, model: str) -> Stores:
    for source in arguments.data:
        if not is_hub_name(source) and not os.path.exists(source):
            raise ToolError(f"{source}: there is no such file or folder", exit_code=CONFIG)
    try:
        options = shlex.split(arguments.prepare)
    except ValueError as error:
        raise ToolError(f"--prepare: {error}", exit_code=CONFIG) from None
    folder = arguments.stores or os.path.join(arguments.out, "stores")
    return prepare_stores(program, arguments.data, model, options, folder)


def write_config(arguments: argparse.Namespace, program: str, text: str) -> str:
    """Checks the configuration. An earlier one in the folder must be the same."""
    path = os.path.join(arguments.out, "config.yaml")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as stream:
            changed = chosen.differences(stream.read(), text)
        if changed:
            raise ToolError(f"{arguments.out}: was begun with other values of {', '.join(changed)}",
                            "Give another --out, or remove the folder.", CONFIG)
        return path
    write_atomically(path + ".new", text)
    run_program(program, ["config", path + ".new"], quiet=True)
    os.replace(path + ".new", path)
    return path


def train(program: str, config: str, num_ranks: int):
    command = [program, "train", config]
    if num_ranks > 1:
        command = [LAUNCHER, "-n", str(num_ranks), "--program", program, config]
    run_stoppable(command, "train")


def export_command(run: dict, out: str, *options: str) -> list[str]:
    best = ["--best"] if run["checkpoint"].get("keep_best") and run["data"].get("validation") else []
    return ["export", run["run"]["output"], "--out", out, *best, *options]


def export(arguments: argparse.Namespace, program: str, run: dict, whole: list[str]) -> str:
    out = os.path.join(arguments.out, "adapter" if arguments.lora else "model")
    if not os.path.isdir(out):
        run_program(program, export_command(run, out, *([] if arguments.lora else whole)))
    return out


def report(arguments: argparse.Namespace, run: str, out: str, merge: list[str]):
    losses = [line["validation_loss"] for line in read_history(run).evaluations]
    if losses:
        best = min(losses[1:] or losses)
        print(f"validation loss: {losses[0]:.4f} before, {losses[-1]:.4f} after, {best:.4f} at best")
    print(f"{out}: the {'adapter' if arguments.lora else 'model'}, of the checkpoint with the lowest validation loss")
    print(f"{os.path.join(arguments.out, 'config.yaml')}: the configuration; {run}: the run")
    lines = [["packtrain", "chat", run, "--best", "--compare"], ["packtrain", "report", run]]
    if arguments.lora:
        lines.append(["packtrain", *merge])
    lines.append(["packtrain", "push", out, "hf:OWNER/NAME", "--card-only"])
    print("Then:")
    for words in lines:
        print(f"  {shlex.join(words)}")


def newest_checkpoint(run: str) -> str:
    """Of a complete save; "" where there is none."""
    folder = os.path.join(run, "checkpoints")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    steps = [int(name[5:]) for name in names if name.startswith("step-") and name[5:].isdigit()
             and os.path.exists(os.path.join(folder, name, "manifest.json"))]
    return os.path.join(folder, f"step-{max(steps)}") if steps else ""


def stopped(arguments: argparse.Namespace, error: ToolError) -> ToolError:
    """The same error with what is kept, where a signal ended the work."""
    if error.exit_code != STOPPED and error.exit_code <= 128:
        return error
    stores = arguments.stores or os.path.join(arguments.out, "stores")
    kept = [stores] if os.path.isdir(stores) else []
    kept += [newest_checkpoint(os.path.join(arguments.out, "run"))]
    names = " and ".join(name for name in kept if name) or "nothing yet"
    return ToolError(error.message, f"Kept: {names}. The same command continues.", error.exit_code)


def main():
    arguments = parse_arguments()
    try:
        work(arguments)
    except ToolError as error:
        raise stopped(arguments, error) from None


def work(arguments: argparse.Namespace):
    program = find_program(arguments.program)
    model = model_folder(arguments.model) if is_hub_name(arguments.model) else arguments.model
    chosen.longest_position(model)  # refuses what is no model, before any work
    num_gpus = count_gpus(program)
    with lock(arguments.out, "tune", "Wait for it, or give another --out."):
        stores = prepare(arguments, program, model)
        run = chosen.choose(model, stores, arguments.lora, num_gpus > 0, os.path.join(arguments.out, "run"))
        chosen.override(run, arguments.settings)
        config = write_config(arguments, program, chosen.to_yaml(run))
        train(program, config, arguments.ranks or max(1, num_gpus))
        whole = ["--tokenizer", os.path.join(stores.train, "tokenizer")]
        out = export(arguments, program, run, whole)
        # Not `packtrain merge`: it knows no run, so neither the end tokens nor the template of the data.
        merge = export_command(run, os.path.join(arguments.out, "merged"), "--merge", *whole)
        report(arguments, run["run"]["output"], out, merge)


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))

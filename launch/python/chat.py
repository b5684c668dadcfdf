#!/usr/bin/env python3
"""Talks to a run or to a model, with transformers' generation. A run is exported into a temporary folder first,
with the chat template of its data. On a terminal, /new begins another conversation, and Ctrl-D ends."""

import argparse
import contextlib
import importlib
import sys
import tempfile

from packtrain_tools.errors import CONFIG, Parser, ToolError, run_main
from packtrain_tools.program import find_program
from packtrain_tools.talk.answers import Conversation, Sampling
from packtrain_tools.talk.folders import find_folders

PROGRAM = "packtrain chat"


def parse_arguments() -> argparse.Namespace:
    parser = Parser(prog=PROGRAM, description=__doc__)
    parser.add_argument("source", metavar="RUN|FOLDER",
                        help="a run's folder or one of its checkpoints, a Hugging Face folder, or a PEFT folder")
    parser.add_argument("--adapter", metavar="DIR", help="a PEFT folder, added to the model; of a run with several "
                                                         "adapters: the name of one")
    parser.add_argument("--base", metavar="DIR", help="the model before training (default: the run's model.path)")
    parser.add_argument("--compare", action="store_true", help="show the answer of the base as well")
    parser.add_argument("--best", action="store_true", help="of a run: the checkpoint of the lowest validation loss")
    parser.add_argument("--prompt", metavar="TEXT", help="print one answer and end; - reads it from standard input")
    parser.add_argument("--system", metavar="TEXT", help="a system prompt")
    parser.add_argument("--max-new-tokens", type=int, default=512, metavar="N", help="of an answer (default: 512)")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T",
                        help="of sampling (default: 0, the most likely token)")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P", help="sample from the most likely tokens that "
                                                                              "sum to P (default: 1)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of sampling (default: 0)")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto",
                        help="default: a GPU if there is one")
    parser.add_argument("--program", help=argparse.SUPPRESS)  # packtrain itself, for exports
    arguments = parser.parse_args()
    if arguments.max_new_tokens < 1:
        parser.error(f"--max-new-tokens is {arguments.max_new_tokens}, wanted at least 1")
    if not 0 <= arguments.temperature <= 100:
        parser.error(f"--temperature is {arguments.temperature:g}, wanted a number from 0 to 100")
    if not 0 < arguments.top_p <= 1:
        parser.error(f"--top-p is {arguments.top_p:g}, wanted a number above 0 and at most 1")
    if not 0 <= arguments.seed < 2**63:
        parser.error(f"--seed is {arguments.seed}, wanted a number from 0 to 2^63 - 1")
    return arguments


def load(arguments: argparse.Namespace, work: str) -> list[tuple[str, Conversation]]:
    """Conversations with their titles: the base first where it is compared."""
    folders = find_folders(find_program(arguments.program), arguments.source, arguments.adapter, arguments.base,
                           arguments.best, work)
    if arguments.compare and folders.base is None:
        raise ToolError(f"--compare: the model that {arguments.source} was trained from is not known or not here",
                        "Name its folder with --base DIR.", CONFIG)
    named = [("base", folders.base)] if arguments.compare else []
    conversations = [(title, Conversation(folder, arguments.device, arguments.system))
                     for title, folder in [*named, ("trained", folders.model)] if folder]
    for _, conversation in conversations:
        conversation.load()
    if not conversations[-1][1].has_template:
        say("there is no chat template: texts are continued, and earlier ones are forgotten")
    return conversations


def say(text: str):
    print(f"{PROGRAM}: {text}", file=sys.stderr, flush=True)


def answer(conversations: list[tuple[str, Conversation]], text: str, sampling: Sampling):
    for title, conversation in conversations:
        if len(conversations) > 1:
            print(f"--- {title}", flush=True)
        conversation.answer(text, sampling)


def talk(conversations: list[tuple[str, Conversation]], sampling: Sampling):
    """One turn a line, until the input ends. Lines of a terminal can be edited."""
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):
            importlib.import_module("readline")
    while True:
        try:
            text = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        if text == "/new":
            for _, conversation in conversations:
                conversation.begin()
        elif text:
            try:
                answer(conversations, text, sampling)
            except KeyboardInterrupt:  # ends the answer, and the turn is forgotten
                print()
            except ToolError as error:
                if not sys.stdin.isatty():
                    raise
                say(str(error))


def main():
    arguments = parse_arguments()
    text = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    if text is not None and not text.strip():
        raise ToolError("--prompt is empty", "Give some text.", CONFIG)
    sampling = Sampling(arguments.max_new_tokens, arguments.temperature, arguments.top_p, arguments.seed)
    with tempfile.TemporaryDirectory(prefix="packtrain-chat-") as work:
        conversations = load(arguments, work)
        if text is not None:
            answer(conversations, text, sampling)
        else:
            talk(conversations, sampling)


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))

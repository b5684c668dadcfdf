"""What `packtrain prepare` is told."""

import argparse
import json
import os

from packtrain_tools.chat.mask import TRAIN_ON
from packtrain_tools.errors import Parser
from packtrain_tools.sources.formats import FORMATS


def column(text: str) -> tuple[str, str]:
    ours, equals, theirs = text.partition("=")
    known = {name for columns in FORMATS.values() for name in columns.required + columns.optional}
    if not (equals and theirs) or ours not in known:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not OURS=YOURS with one of {', '.join(sorted(known))}")
    return ours, theirs


def template_option(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def add_chat_arguments(parser: Parser):
    chat = parser.add_argument_group("conversations")
    chat.add_argument("--train-on", choices=TRAIN_ON, default="assistant",
                      help="learn all turns of the assistant (default), the last one, or each in "
                           "an example of its own, as the model will see it; `train` of a message "
                           "overrides")
    chat.add_argument("--chat-template", metavar="FILE",
                      help="a Jinja template instead of the tokenizer's own")
    chat.add_argument("--template-option", action="append", default=[], type=template_option,
                      metavar="NAME=VALUE", help="a variable of the chat template, such as "
                                                 "enable_thinking=false; VALUE is JSON or text")
    chat.add_argument("--allow-open-turns", action="store_true",
                      help="take turns that end in no special token")
    chat.add_argument("--instructions-as", choices=["chat", "text"],
                      help="make conversations of instructions, or text under headings (default: "
                           "chat where there is a chat template)")


def make_parser(program: str) -> Parser:
    parser = Parser(prog=program, description="Tokenise texts and conversations into a token store.")
    parser.add_argument("sources", nargs="+", metavar="SOURCE",
                        help="text, .jsonl, .json (each also as .gz or .zst), .parquet, .arrow, "
                             "a folder of such files or of `datasets`, or a data set of the "
                             "Hugging Face Hub: hf:OWNER/NAME[/CONFIG][@REVISION][:SPLIT]")
    parser.add_argument("--format", choices=list(FORMATS),
                        help="what the columns mean (default: found by their names)")
    parser.add_argument("--column", action="append", default=[], type=column, metavar="OURS=YOURS",
                        help="what a column is called in the sources, such as prompt=question")
    parser.add_argument("--tokenizer", required=True, metavar="PATH",
                        help="a Hugging Face folder with tokenizer.json")
    parser.add_argument("--out", required=True, metavar="STORE", help="the folder to write")
    parser.add_argument("--separator", metavar="LINE",
                        help="text files hold several documents, divided by lines of only this, "
                             "such as '%%' in files of fortunes (default: one document a file)")
    add_chat_arguments(parser)
    add_selection_arguments(parser)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="processes (default: one a core); the stores do not depend on it")
    parser.add_argument("--overwrite", action="store_true", help="replace stores that exist")
    parser.add_argument("--skip-bad-lines", action="store_true",
                        help="list lines (or documents) that cannot be used in "
                             "STORE/bad-lines.jsonl, instead of stopping at the first")
    parser.add_argument("--max-bad-fraction", type=float, metavar="F",
                        help="of all lines, that may be skipped (default: 0.001)")
    parser.add_argument("--samples", type=int, default=2, metavar="N",
                        help="examples to show at the end, decoded with their mask (default: 2)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    return parser


def add_selection_arguments(parser: Parser):
    group = parser.add_argument_group("which examples")
    group.add_argument("--max-examples", type=int, metavar="N", help="stop after N examples")
    group.add_argument("--deduplicate", action="store_true",
                       help="leave out examples whose tokens and mask were there before")
    group.add_argument("--validation-fraction", type=float, metavar="F",
                       help="put about this share of the examples into --validation-out instead, "
                            "chosen by a hash of their contents")
    group.add_argument("--validation-examples", type=int, metavar="N",
                       help="put exactly N examples there, chosen so")
    group.add_argument("--validation-out", metavar="STORE", help="the folder of the held out ones")
    group.add_argument("--seed", type=int, default=0, metavar="S", help="of that choice")


def parse_arguments(program: str):
    parser = make_parser(program)
    arguments = parser.parse_args()
    for name, least in [("processes", 1), ("max_examples", 1), ("validation_examples", 1),
                        ("samples", 0)]:
        value = getattr(arguments, name)
        if value is not None and value < least:
            parser.error(f"--{name.replace('_', '-')} is {value}, wanted at least {least}")
    if arguments.max_bad_fraction is None:
        arguments.max_bad_fraction = 0.001
    elif not (arguments.skip_bad_lines and 0.0 <= arguments.max_bad_fraction <= 1.0):
        parser.error("--max-bad-fraction wants a number from 0 to 1, and --skip-bad-lines")
    check_validation(parser, arguments)
    return arguments


def check_validation(parser: Parser, arguments):
    fraction, number = arguments.validation_fraction, arguments.validation_examples
    if fraction is not None and number is not None:
        parser.error("--validation-fraction and --validation-examples exclude each other")
    if (fraction is None and number is None) != (arguments.validation_out is None):
        parser.error("--validation-fraction (or --validation-examples) and --validation-out need "
                     "each other")
    if fraction is not None and not 0.0 < fraction < 1.0:
        parser.error(f"--validation-fraction is {fraction}, wanted a number between 0 and 1")
    if arguments.validation_out and (os.path.realpath(arguments.out) ==
                                     os.path.realpath(arguments.validation_out)):
        parser.error("--out and --validation-out are the same folder")

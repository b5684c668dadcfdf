"""The arguments of `packtrain prepare`."""

import argparse
import datetime
import json
import os

from packtrain_tools.chat.mask import TRAIN_ON
from packtrain_tools.errors import Parser
from packtrain_tools.prepare.rollout_groups import CENTERED, MEANINGS, STANDARDIZED
from packtrain_tools.prepare.unfinished import TODAY
from packtrain_tools.chat.media import is_media_name
from packtrain_tools.chat.names import CALL, ROLES, make_names
from packtrain_tools.chat.reshape import Reshaping
from packtrain_tools.sources.columns import FORMATS, JUDGEMENTS, OURS, Reading
from packtrain_tools.sources.source_file import KIND_NAMES

DEFAULT_DATE = "2024-07-26"  # the default date of Llama 3.2's chat template


def column(text: str) -> tuple[str, str]:
    """YOURS may be empty: then the column is left out."""
    ours, equals, theirs = text.partition("=")
    may_go = not theirs and (ours in JUDGEMENTS or is_media_name(ours))
    if not equals or not (ours in OURS or may_go):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not OURS=YOURS with one of {', '.join(sorted(OURS))}")
    return ours, theirs


def role(text: str) -> list[tuple[str, str]]:
    ours, _, theirs = text.partition("=")
    names = theirs.split(",")
    if not all(names) or ours not in (*ROLES, CALL):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not OURS=YOURS[,YOURS...] with one of {', '.join((*ROLES, CALL))}")
    return [(ours, name) for name in names]


def message_key(text: str) -> tuple[str, str]:
    ours, _, theirs = text.partition("=")
    if not theirs or ours not in ("role", "content"):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not OURS=YOURS with one of role, content")
    return ours, theirs


def template_option(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def date(text: str) -> str:
    if text != TODAY:
        try:
            text = datetime.date.fromisoformat(text).isoformat()
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not YYYY-MM-DD, or {TODAY}") from None
    return text


def sample(text: str) -> int | float:
    """An integer is a number of examples, also 1; any other number is a share."""
    try:
        value = int(text) if text.strip().isdecimal() else float(text)
    except ValueError:
        value = 0
    if not (value >= 1 if isinstance(value, int) else 0.0 < value < 1.0):
        raise argparse.ArgumentTypeError(f"'{text}' is neither a number of examples (an integer >= 1) "
                                         "nor a share (a number between 0 and 1)")
    return value


def add_chat_arguments(parser: Parser):
    chat = parser.add_argument_group("conversations")
    chat.add_argument("--train-on", choices=TRAIN_ON, default="assistant",
                      help="learn all turns of the assistant (default), the last one, each in "
                           "an example of its own, as the model will see it, or everything; `train` "
                           "of a message overrides")
    chat.add_argument("--also-train-on", action="append", default=[], metavar="ROLE",
                      choices=["tool", "user", "system"],
                      help="learn the messages of this role too: tool, user or system (repeatable)")
    chat.add_argument("--group-turns", action="store_true",
                      help="with --train-on each-turn: the examples of a conversation are a group, which "
                           "is trained together; what they share is computed once")
    chat.add_argument("--left-out-parts", choices=["refuse", "count"], default="refuse",
                      help="what to do with a conversation of which the chat template leaves out a "
                           "part: it is a bad line (default), or taken as it is and counted")
    chat.add_argument("--date", type=date, default=DEFAULT_DATE, metavar="YYYY-MM-DD",
                      help="what chat templates take for today, so that every day makes the same "
                           f"store (default: {DEFAULT_DATE}); `{TODAY}`: the day when the preparation "
                           "began")
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


def add_token_arguments(parser: Parser):
    group = parser.add_argument_group("tokens")
    end = group.add_mutually_exclusive_group()
    end.add_argument("--end-token", metavar="TOKEN",
                     help="the token that ends each text (default: the tokenizer's eos_token)")
    end.add_argument("--no-end-token", action="store_true", help="end texts with no token")
    group.add_argument("--special-tokens-in-data", choices=["token", "plain", "refuse"],
                       default="token",
                       help="what the name of a special token in the data is: that token (default), "
                            "plain text, or a bad line")


def add_length_arguments(parser: Parser):
    group = parser.add_argument_group("lengths")
    group.add_argument("--min-length", type=int, metavar="N",
                       help="leave out examples of fewer than N tokens")
    group.add_argument("--max-length", type=int, metavar="N",
                       help="examples of more than N tokens are what --too-long says")
    group.add_argument("--too-long", choices=["refuse", "drop", "turns", "last-turns", "truncate"],
                       help="bad lines (default), left out, conversations without their oldest turns "
                            "(the system prompt stays) or without their last ones, or cut at N tokens")


def add_reading_arguments(parser: Parser):
    group = parser.add_argument_group("what sources hold")
    group.add_argument("--as", dest="as_kind", choices=list(KIND_NAMES),
                       help="read every file so, whatever its name (default: by its suffix; "
                            "standard input as jsonl)")
    group.add_argument("--role", action="append", default=[], type=role,
                       metavar="OURS=YOURS[,YOURS...]",
                       help="what roles are called in messages, such as user=human,prompter")
    group.add_argument("--message-key", action="append", default=[], type=message_key,
                       metavar="OURS=YOURS", help="what messages call their role or content, such "
                                                  "as content=body")
    group.add_argument("--system", default="", metavar="TEXT",
                       help="a system prompt for conversations, instructions and prompts that "
                            "have none")
    group.add_argument("--merge-system", action="store_true",
                       help="put system prompts before the words of the first user's turn, for "
                            "models without that role")
    group.add_argument("--only-chosen", action="store_true",
                       help="of preferences: a plain store of the chosen (or desirable) answers, for "
                            "supervised training")
    group.add_argument("--advantage-from", choices=list(MEANINGS),
                       help="of rollouts: compute advantages from the column reward, even where there is a "
                            f"column advantage. {STANDARDIZED} (default without that column): "
                            f"{MEANINGS[STANDARDIZED]}; {CENTERED}: {MEANINGS[CENTERED]}")
    group.add_argument("--group-by", metavar="COLUMN",
                       help="records with the same value of it stay on one side of the held out "
                            "part")


def make_parser(program: str) -> Parser:
    parser = Parser(prog=program, description="Tokenise texts and conversations into a token store.")
    parser.add_argument("sources", nargs="+", metavar="SOURCE",
                        help="text, .jsonl, .json, .csv, .tsv (each also compressed: .gz, .zst, "
                             ".bz2, .xz), .parquet, .arrow, a folder of such files or of "
                             "`datasets`, a data set of the Hugging Face Hub "
                             "(hf:OWNER/NAME[/CONFIG][@REVISION][:SPLIT]), or - for standard "
                             "input")
    parser.add_argument("--format", choices=list(FORMATS),
                        help="what the columns mean (default: found by their names)")
    parser.add_argument("--column", action="append", default=[], type=column, metavar="OURS=YOURS",
                        help="what a column is called in the sources, such as prompt=question; "
                             "without YOURS it is left out")
    parser.add_argument("--tokenizer", required=True, metavar="PATH",
                        help="a Hugging Face folder with tokenizer.json, or hf:OWNER/NAME[@REVISION]")
    parser.add_argument("--out", required=True, metavar="STORE", help="the folder to write")
    parser.add_argument("--separator", metavar="LINE",
                        help="text files hold several documents, divided by lines of only this, "
                             "such as '%%' in files of fortunes (default: one document a file)")
    add_reading_arguments(parser)
    add_chat_arguments(parser)
    add_token_arguments(parser)
    add_length_arguments(parser)
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
    group.add_argument("--deduplicate", action="store_true",
                       help="leave out examples whose tokens and mask were there before")
    group.add_argument("--sample", type=sample, metavar="N|F",
                       help="take N examples of all, or about the share F between 0 and 1, chosen by "
                            "a hash of their contents; after --deduplicate")
    group.add_argument("--max-examples", type=int, metavar="N",
                       help="stop after N examples; after --sample")
    group.add_argument("--validation-fraction", type=float, metavar="F",
                       help="put about this share of the examples into --validation-out instead, "
                            "chosen by a hash of their contents; all examples of a conversation, "
                            "or of a value of --group-by, stay together")
    group.add_argument("--validation-examples", type=int, metavar="N",
                       help="put N examples there, chosen so, or a few more where the last "
                            "group has several")
    group.add_argument("--validation-out", metavar="STORE", help="the folder of the held out ones")
    group.add_argument("--seed", type=int, default=0, metavar="S", help="of these choices")


def reading_of(arguments) -> Reading:
    keys = dict(arguments.message_key)
    roles = [pair for pairs in arguments.role for pair in pairs]
    return Reading(arguments.group_by or "", make_names(roles, keys.get("role"), keys.get("content")),
                   Reshaping(arguments.system, arguments.merge_system), arguments.advantage_from or "")


def check_names(parser: Parser, arguments):
    """Checks that each name in the data has only one of our names."""
    roles = [pair for pairs in arguments.role for pair in pairs]
    for ours, theirs in roles:
        other = next((our for our, their in roles if their == theirs and our != ours), None)
        if other is not None:
            parser.error(f"--role calls '{theirs}' both '{ours}' and '{other}'")
    keys = [ours for ours, _ in arguments.message_key]
    if len(set(keys)) < len(keys):
        parser.error(f"--message-key names '{keys[0]}' twice")


def parse_arguments(program: str):
    parser = make_parser(program)
    arguments = parser.parse_args()
    for name, least in [("processes", 1), ("max_examples", 1), ("validation_examples", 1),
                        ("samples", 0), ("min_length", 1), ("max_length", 2)]:
        value = getattr(arguments, name)
        if value is not None and value < least:
            parser.error(f"--{name.replace('_', '-')} is {value}, wanted at least {least}")
    if arguments.group_turns and arguments.train_on != "each-turn":
        parser.error("--group-turns needs --train-on each-turn, which makes an example of each turn")
    if arguments.max_bad_fraction is None:
        arguments.max_bad_fraction = 0.001
    elif not (arguments.skip_bad_lines and 0.0 <= arguments.max_bad_fraction <= 1.0):
        parser.error("--max-bad-fraction wants a number from 0 to 1, and --skip-bad-lines")
    check_lengths(parser, arguments)
    check_names(parser, arguments)
    for name in ("out", "validation_out", "tokenizer", "chat_template", "group_by", "end_token"):
        if getattr(arguments, name) == "":
            parser.error(f"--{name.replace('_', '-')} is empty, wanted a value")
    check_validation(parser, arguments)
    arguments.asked_date = arguments.date
    return arguments


def check_lengths(parser: Parser, arguments):
    least, most = arguments.min_length, arguments.max_length
    if arguments.too_long and most is None:
        parser.error(f"--too-long {arguments.too_long} needs --max-length N")
    arguments.too_long = arguments.too_long or "refuse"
    if least and most and least > most:
        parser.error(f"--min-length is {least}, more than --max-length, which is {most}")


def check_validation(parser: Parser, arguments):
    fraction, number = arguments.validation_fraction, arguments.validation_examples
    if fraction is not None and number is not None:
        parser.error("--validation-fraction and --validation-examples exclude each other")
    if (fraction is None and number is None) != (arguments.validation_out is None):
        parser.error("--validation-fraction (or --validation-examples) and --validation-out need "
                     "each other")
    if fraction is not None and not 0.0 < fraction < 1.0:
        parser.error(f"--validation-fraction is {fraction}, wanted a number between 0 and 1")
    if arguments.validation_out is None:
        return
    folders = [os.path.realpath(folder) for folder in (arguments.out, arguments.validation_out)]
    if folders[0] == folders[1]:
        parser.error("--out and --validation-out are the same folder")
    if os.path.commonpath(folders) in folders:
        parser.error("--out and --validation-out lie one in the other, wanted two folders apart")

#!/usr/bin/env python3
"""Text and JSONL to token stores: `packtrain prepare SOURCE... --tokenizer PATH --out STORE`."""

import io
import json
import os
import sys

from packtrain_tools.chat.mask import ChatMask, MaskOptions
from packtrain_tools.chat.template import load_chat_template
from packtrain_tools.prepare.counts import sentences
from packtrain_tools.prepare.encoding import Encoder, EncodingOptions
from packtrain_tools.prepare.lengths import MAX_LENGTH, LengthLimits
from packtrain_tools.errors import CONFIG, ToolError, run_main
from packtrain_tools.hub_model import is_hub_name, tokenizer_folder
from packtrain_tools.sources.formats import FileFormat, find_format
from packtrain_tools.prepare.groups import find_groups, groups_text
from packtrain_tools.prepare.no_effect import check_columns, options_without_effect
from packtrain_tools.prepare.preparation import Preparation
from packtrain_tools.prepare.arguments import parse_arguments, reading_of
from packtrain_tools.prepare.unfinished import resolve_date
from packtrain_tools.sources.documents import printable
from packtrain_tools.showing import Decoders, has_color, legend
from packtrain_tools.showing_groups import show_sample
from packtrain_tools.sources.hints import hints_for
from packtrain_tools.sources.files import list_files
from packtrain_tools.sources.source_file import KIND_NAMES, SourceFile
from packtrain_tools.store_reader import StoreReader

PROGRAM = "packtrain prepare"
BAR_WIDTH = 50
SAMPLE_CHARS = 600  # characters of one learned or masked passage


def find_formats(arguments, files: list[SourceFile]) -> dict[str, FileFormat]:
    """Formats by path. Reports on stderr what each source has."""
    reading = reading_of(arguments)
    formats = {file.path: find_format(file, arguments.format, arguments.column, reading)
               for file in files}
    for index, source in enumerate(arguments.sources):
        counts: dict[str, int] = {}
        for file in files:
            if file.source == index:
                name = str(formats[file.path])
                counts[name] = counts.get(name, 0) + 1
        for name, count in counts.items():
            num_files = "" if count == 1 else f" in {count:,} files"
            print(f"{PROGRAM}: {printable(source)}: {name}{num_files}", file=sys.stderr)
    for hint in dict.fromkeys(hint for form in formats.values() for hint in hints_for(form)):
        print(f"{PROGRAM}: {hint}", file=sys.stderr)
    check_columns(arguments.column, files, formats)
    for what in options_without_effect(arguments, {form.name for form in formats.values()}):
        print(f"{PROGRAM}: has no effect: {what}", file=sys.stderr)
    return formats


def set_chat(arguments, encoder: Encoder, formats: set[str]):
    template = load_chat_template(arguments.tokenizer, arguments.chat_template, encoder.settings,
                                  dict(arguments.template_option), arguments.date,
                                  encoder.named_tokens())
    if template is None and formats & {"messages", "sharegpt"}:
        raise ToolError(f"{arguments.tokenizer}: has no chat template, which conversations need",
                        "Give one with --chat-template FILE.", CONFIG)
    as_chat = arguments.instructions_as == "chat" or (arguments.instructions_as is None and
                                                      template is not None)
    if as_chat and template is None:
        raise ToolError(f"{arguments.tokenizer}: has no chat template, which "
                        "--instructions-as chat needs", exit_code=CONFIG)
    if "instruction" in formats:
        print(f"{PROGRAM}: instructions become {'conversations' if as_chat else 'text'}"
              f"{' under headings' if not as_chat else ''}", file=sys.stderr)
    if template is not None:
        options = MaskOptions(arguments.train_on, tuple(arguments.also_train_on),
                              arguments.allow_open_turns, arguments.left_out_parts == "count",
                              arguments.special_tokens_in_data == "plain")
        encoder.set_chat(ChatMask(template, options, encoder.special_tokens(),
                                  encoder.added_tokens(), encoder.named_tokens().get("eos_token")),
                         as_chat)
    encoder.check_end_token(formats)


def encoding_options(arguments) -> EncodingOptions:
    limits = LengthLimits(arguments.min_length or 1, arguments.max_length or MAX_LENGTH,
                          arguments.too_long or "refuse")
    return EncodingOptions(arguments.end_token, arguments.no_end_token,
                           arguments.special_tokens_in_data, limits, arguments.only_chosen,
                           arguments.group_turns, arguments.train_on != "last")


def print_store(store: dict):
    length = store["length"]
    share = store["num_loss_tokens"] / store["num_tokens"]
    print(f"{store['path']}: {store['num_examples']:,} examples, {store['num_tokens']:,} tokens "
          f"({store['num_loss_tokens']:,} to predict, {share:.1%}), vocabulary of "
          f"{store['vocab_size']:,}{groups_text(store)}")
    print(f"  tokens an example: min {length['min']:,}, median {length['median']:,.1f}, "
          f"mean {length['mean']:,.1f}, p99 {length['p99']:,.1f}, max {length['max']:,}")
    most = max(bin["num_examples"] for bin in store["histogram"])
    for bin in store["histogram"]:
        bar = "#" * round(BAR_WIDTH * bin["num_examples"] / most)
        print(f"  {bin['min_tokens']:>9,}-{bin['max_tokens']:<9,} {bin['num_examples']:>11,} "
              f"{bar}".rstrip())


def print_samples(folder: str, num_samples: int):
    """Prints examples evenly spaced over the store."""
    reader = StoreReader(folder)
    num_examples = reader.info["num_examples"]
    color = has_color(sys.stdout)
    print(f"samples ({legend(color)}):")
    decode = Decoders().of(folder)
    wanted = {reader.first_of_group(num_examples * i // num_samples) for i in range(num_samples)}
    for number in sorted(wanted):
        print(show_sample(reader, number, decode, color, SAMPLE_CHARS))


def print_left_out(summary: dict):
    """Prints sources and columns that added nothing to the stores."""
    empty = summary["sources_without_examples"]
    if empty:
        why = ": --max-examples was reached without them; --sample takes examples of all sources" \
            if summary["max_examples_reached"] else ""
        print(printable(f"No example came from {', '.join(empty)}{why}."))
    for source, columns in summary["ignored_columns"].items():
        print(printable(f"Columns of {source} that were not read: {', '.join(columns)}."))


def ignored_columns(arguments, files: list[SourceFile],
                    formats: dict[str, FileFormat]) -> dict[str, list[str]]:
    """Ignored columns by source, where there are any."""
    ignored: dict[str, list[str]] = {}
    for file in files:
        names = ignored.setdefault(arguments.sources[file.source], [])
        names += [name for name in formats[file.path].ignored if name not in names]
    return {source: names for source, names in ignored.items() if names}


def print_counts(summary: dict):
    """Prints counts of everything that was read, which may be more than was taken."""
    num_read = summary["num_examples_read"]
    if summary["counts"] and num_read > sum(store["num_examples"] for store in summary["stores"]):
        print(f"Of all {num_read:,} examples that were read, before some of them were chosen:")
    for sentence in sentences(summary["counts"]):
        print(sentence)


def print_summary(summary: dict, num_samples: int):
    for store in summary["stores"]:
        print_store(store)
    if summary["num_duplicates"]:
        print(f"left out {summary['num_duplicates']:,} duplicates")
    if summary["num_skipped"]:
        print(f"skipped {summary['num_skipped']:,} documents with nothing to predict")
    if summary["num_bad_lines"]:
        print(f"skipped {summary['num_bad_lines']:,} bad lines: see "
              f"{os.path.join(summary['stores'][0]['path'], 'bad-lines.jsonl')}")
    print_left_out(summary)
    print_counts(summary)
    if num_samples:
        print_samples(summary["stores"][0]["path"], num_samples)


def print_anything():
    """Escapes characters that the terminal's encoding lacks. A closed output has no encoding."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # as long as the program
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main():
    print_anything()
    arguments = parse_arguments(PROGRAM)
    if is_hub_name(arguments.tokenizer):
        arguments.tokenizer = tokenizer_folder(arguments.tokenizer)
    stores = [folder for folder in (arguments.out, arguments.validation_out) if folder]
    files, left_out = list_files(arguments.sources, KIND_NAMES.get(arguments.as_kind), stores)
    arguments.date = resolve_date(arguments, files)
    encoder = Encoder(arguments.tokenizer, encoding_options(arguments))
    if left_out:
        kinds = ", ".join(f"{count:,} *{suffix}" for suffix, count in sorted(left_out.items()))
        print(f"{PROGRAM}: left out files of other kinds: {kinds}", file=sys.stderr)
    formats = find_formats(arguments, files)
    encoder.set_formats(formats)
    set_chat(arguments, encoder, {form.name for form in formats.values()})
    groups = find_groups(arguments, list(formats.values()))
    encoder.set_rollout_columns(groups["token_columns"] if groups else [])
    summary = Preparation(arguments, encoder, files, groups).run()
    summary["ignored_columns"] = ignored_columns(arguments, files, formats)
    if arguments.json:
        print(json.dumps(summary))
    else:
        print_summary(summary, arguments.samples)


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))

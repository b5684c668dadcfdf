#!/usr/bin/env python3
"""Shows examples of a token store, decoded, with their loss mask. With a configuration it shows the
pack that a rank trains in a step. With a run it shows the samples that its model wrote
(samples.steps).

  packtrain inspect STORE [EXAMPLE...]
  packtrain inspect CONFIG [section.key=value ...] --step N --rank R --ranks WORLD
  packtrain inspect RUN [EXAMPLE...] [--step N]
"""

import argparse
import os
import sys
from collections.abc import Sequence

import numpy as np

from packtrain_tools.errors import CONFIG, Parser, ToolError, run_main
from packtrain_tools.planned_step import PlannedExamples, PlannedStep
from packtrain_tools.run_samples import answers_of, has_samples, read_samples, text_of, title
from packtrain_tools.showing import Decoders, has_color, legend, show_passages, show_tokens
from packtrain_tools.showing_groups import show_group, title_of_group
from packtrain_tools.prepare.groups import groups_text
from packtrain_tools.prepare.store import MANIFEST
from packtrain_tools.store_reader import StoreReader

PROGRAM = "packtrain inspect"


def parse_arguments() -> argparse.Namespace:
    parser = Parser(prog=PROGRAM, description=__doc__,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", metavar="STORE|CONFIG|RUN",
                        help="a token store, a configuration, or a run's folder")
    parser.add_argument("words", nargs="*", metavar="EXAMPLE|section.key=value",
                        help="of a store or a run: numbers of examples, from 0; of a configuration: overrides")
    parser.add_argument("--ids", action="store_true", help="token ids instead of text")
    parser.add_argument("--max-chars", type=int, metavar="N",
                        help="of a passage that is learned or not (default: 1000, in packs 200; "
                             "0: all)")
    store = parser.add_argument_group("of a store")
    store.add_argument("--source", metavar="NAME", help="only examples of this source, by its name, "
                                                        "the end of it, or its number")
    store.add_argument("--random", type=int, metavar="K", help="K examples drawn at random "
                       "(without it and without numbers: the first 3)")
    store.add_argument("--seed", type=int, default=0, metavar="S", help="of that drawing")
    pack = parser.add_argument_group("of a configuration")
    pack.add_argument("--step", type=int, metavar="N", help="from 0 (default: 0); of a run: after "
                      "so many steps (default: the last; with numbers of examples: all)")
    pack.add_argument("--rank", type=int, metavar="R", help="from 0 (default: 0)")
    pack.add_argument("--ranks", type=int, metavar="WORLD", help="as in a run of so many (default: 1)")
    pack.add_argument("--micro-batch", type=int, metavar="M", help="only this one, from 0")
    run = parser.add_argument_group("of a run")
    run.add_argument("--set", metavar="NAME", help="only examples of this evaluation set")
    parser.add_argument("--program", help=argparse.SUPPRESS)  # packtrain itself, for plans
    arguments = parser.parse_args()
    for name in ("random", "step", "rank", "micro_batch", "max_chars"):
        value = getattr(arguments, name)
        if value is not None and value < 0:
            parser.error(f"--{name.replace('_', '-')} is {value}, wanted at least 0")
    return arguments


def refuse(arguments, names: tuple[str, ...], theirs: str, is_a: str):
    for name in names:
        if getattr(arguments, name) is not None:
            raise ToolError(f"--{name.replace('_', '-')} is of {theirs}, and {arguments.target} is "
                            f"{is_a}", exit_code=CONFIG)


class Shower:
    def __init__(self, arguments, max_chars: int):
        self.color = has_color(sys.stdout)
        self._max_chars = arguments.max_chars if arguments.max_chars is not None else max_chars
        self._decoders = Decoders(arguments.ids)

    def show(self, folder: str, ids: np.ndarray, mask: np.ndarray):
        print(show_tokens(ids, mask, self._decoders.of(folder), self.color, self._max_chars or None))

    def show_members(self, folder: str, store: StoreReader, members: list[int]):
        print(show_group(store, members, self._decoders.of(folder), self.color, self._max_chars or None))


def show_store(arguments):
    refuse(arguments, ("step", "rank", "ranks", "micro_batch"), "configurations", "a store")
    refuse(arguments, ("set",), "runs", "a store")
    store = StoreReader(arguments.target)
    shower = Shower(arguments, 1000)
    info = store.info
    print(f"{arguments.target}: {info['num_examples']:,} examples, {info['num_tokens']:,} tokens, "
          f"{info['num_loss_tokens']:,} to predict{groups_text(info)} ({legend(shower.color)})")
    for number in chosen_examples(arguments, store):
        if store.has_groups:
            title, members = title_of_group(store, number)
            print(f"--- {title}")
            shower.show_members(arguments.target, store, members)
            continue
        ids, mask, source = store.example(number)
        print(f"--- example {number:,} of {info['sources'][source]}: {len(ids):,} tokens, "
              f"{np.count_nonzero(mask[1:]):,} to predict{weights_used(store, mask)}"
              f"{columns_text(store, number)}")
        shower.show(arguments.target, ids, mask)


def columns_text(store: StoreReader, number: int) -> str:
    """The range of each column of tokens of an example."""
    return "".join(f", {name} from {values.min():g} to {values.max():g}"
                   for name, values in store.token_columns(number).items())


def weights_used(store: StoreReader, mask: np.ndarray) -> str:
    """The number of labels of each weight, where the store has a table of weights."""
    if store.loss_weights is None:
        return ""
    weights, counts = np.unique(store.loss_weights[mask[1:][mask[1:] != 0]], return_counts=True)
    return "".join(f", {count:,} of weight {weight:g}" for weight, count in zip(weights[::-1], counts[::-1]))


def chosen_examples(arguments, store: StoreReader) -> list[int]:
    if arguments.words:
        if arguments.random is not None or arguments.source is not None:
            raise ToolError("numbers of examples exclude --random and --source", exit_code=CONFIG)
        numbers = [store.first_of_group(example_number(word)) for word in arguments.words]
        return list(dict.fromkeys(numbers)) if store.has_groups else numbers
    candidates = store.group_begins()
    if arguments.source is not None:
        candidates = candidates[store.sources()[candidates] == source_index(arguments.source, store)]
        if not len(candidates):
            raise ToolError(f"{arguments.target}: has no example of the source {arguments.source}")
    if arguments.random is None:
        return candidates[:3].tolist()
    drawn = np.random.default_rng(arguments.seed).choice(
        candidates, min(arguments.random, len(candidates)), replace=False)
    return drawn.tolist()


def example_number(word: str) -> int:
    if not word.isdecimal():
        raise ToolError(f"'{word}' is no number of an example", "Numbers begin at 0; overrides "
                        "(section.key=value) are of configurations.", CONFIG)
    return int(word)


def source_index(wanted: str, store: StoreReader) -> int:
    names = store.info["sources"]
    found = [i for i, name in enumerate(names) if name == wanted]
    found = found or [i for i, name in enumerate(names) if name.endswith(wanted)]
    if not found and wanted.isdecimal() and int(wanted) < len(names):
        found = [int(wanted)]
    if len(found) != 1:
        listed = "\n  ".join(f"{i}: {name}" for i, name in enumerate(names[:20]))
        raise ToolError(f"{'several sources are' if found else 'no source is'} called '{wanted}'",
                        f"There are\n  {listed}", CONFIG)
    return found[0]


def show_pack(arguments):
    refuse(arguments, ("source", "random"), "stores", "a configuration")
    refuse(arguments, ("set",), "runs", "a configuration")
    rank, ranks = arguments.rank or 0, arguments.ranks or 1
    if rank >= ranks:
        raise ToolError(f"--rank is {rank}, of --ranks {ranks} the last is {ranks - 1}",
                        exit_code=CONFIG)
    step = PlannedStep(arguments.program, arguments.target, arguments.words, arguments.step or 0,
                       ranks)
    stores = PlannedExamples(step.origins)
    micro_batches = step.micro_batches(rank)
    shower = Shower(arguments, 200)
    pieces = [piece for micro_batch in micro_batches for piece in micro_batch]
    print(f"step {step.step:,} of {step.num_steps:,}, rank {rank} of {ranks}: "
          f"{len(micro_batches)} micro-batches, {len(pieces)} pieces, "
          f"{sum(length for _, _, length in pieces):,} tokens, {step.strategy} "
          f"({legend(shower.color)})")
    numbers: Sequence[int] = range(len(micro_batches))
    if arguments.micro_batch is not None:
        if arguments.micro_batch not in numbers:
            raise ToolError(f"--micro-batch is {arguments.micro_batch}, wanted 0.."
                            f"{len(micro_batches) - 1}", exit_code=CONFIG)
        numbers = [arguments.micro_batch]
    for number in numbers:
        show_micro_batch(number, micro_batches[number], step.rows(rank)[number], stores, shower)


def show_micro_batch(number: int, pieces: list, rows: int, stores: PlannedExamples, shower: Shower):
    num_tokens = sum(length for _, _, length in pieces)
    print(f"=== micro-batch {number}: {len(pieces)} pieces, {num_tokens:,} tokens in {rows:,} rows")
    at = 0
    for example, begin, length in pieces:
        folder, local, ids, mask, source = stores.example(example)
        part = "" if length == len(ids) else f", tokens {begin:,}..{begin + length - 1:,} of it"
        print(f"--- token {at:,}: {length:,} tokens, example {local:,} of {folder}, "
              f"source {source}{part}")
        shower.show(folder, ids[begin:begin + length], mask[begin:begin + length])
        at += length


def show_samples(arguments):
    refuse(arguments, ("source", "random"), "stores", "a run")
    refuse(arguments, ("rank", "ranks", "micro_batch"), "configurations", "a run")
    samples = read_samples(arguments.target)
    steps = sorted({sample["step"] for sample in samples})
    if not samples:
        raise ToolError(f"{arguments.target}: holds no sample yet")
    numbers = [example_number(word) for word in arguments.words]
    step = arguments.step if arguments.step is not None or numbers else steps[-1]
    chosen = [sample for sample in samples
              if step in (None, sample["step"]) and (not numbers or sample["example"] in numbers)
              and arguments.set in (None, sample.get("set"))]
    if not chosen:
        raise ToolError(f"{arguments.target}: has no such sample",
                        "There are " + ", ".join(sorted({title(s) for s in samples}))
                        + f" after steps {', '.join(map(str, steps))}.", CONFIG)
    decoders, color = Decoders(arguments.ids), has_color(sys.stdout)
    limit = 1000 if arguments.max_chars is None else arguments.max_chars
    print(f"{arguments.target}: after {len(steps):,} steps, the last of them {steps[-1]:,} "
          f"({legend(color, 'written by the model')})")
    for sample in chosen:
        ended = "" if sample["ended"] else ", not ended"
        print(f"--- step {sample['step']:,}, {title(sample)}: {len(sample['continuation']):,} "
              f"tokens{ended}")
        passages = [(False, text_of(sample, "prompt", decoders)), (True, text_of(sample, "continuation", decoders))]
        print(show_passages(passages, color, limit or None))
        if "without_adapter" in sample:
            print("  without the adapter: " + show_passages([(True, text_of(sample, "without_adapter", decoders))],
                                                            color, limit or None))
        for name, part in answers_of(sample).items():
            print(f"  {name}: " + show_passages([(False, text_of(sample, part, decoders))], color, limit or None))


def main():
    arguments = parse_arguments()
    if has_samples(arguments.target):
        show_samples(arguments)
    elif os.path.isdir(arguments.target):
        if os.path.isfile(os.path.join(arguments.target, "metrics.jsonl")):
            raise ToolError(f"{arguments.target}: is a run that took no samples",
                            "Set samples.steps, and see `packtrain config --explain samples.steps`.")
        if not os.path.isfile(os.path.join(arguments.target, MANIFEST)):
            raise ToolError(f"{arguments.target}: is no token store: it has no {MANIFEST}",
                            "Give a folder that `packtrain prepare` finished.")
        show_store(arguments)
    elif os.path.isfile(arguments.target):
        show_pack(arguments)
    else:
        raise ToolError(f"{arguments.target}: is no token store, configuration or run: there is no "
                        "such file or folder", exit_code=CONFIG)


if __name__ == "__main__":
    sys.exit(run_main(PROGRAM, main))

"""Plans of optimizer steps, and the files that batch.strategy: file reads (samplers/plan_file/plan_file.h)."""

import array
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

HOME = os.path.dirname(os.path.realpath(__file__))
VERSION = 1

Ranks = list[list[list[int]]]  # [rank][micro-batch] examples, numbered from 0
Step = Ranks | list[int]  # a step of a whole plan, or the examples of a step


class PlanError(RuntimeError):
    """The program refused to plan, or a plan is none. The text says why."""


def _digest(lengths: Iterable[int]) -> str:
    numbers = array.array("i", [int(length) for length in lengths])
    if sys.byteorder != "little":
        numbers.byteswap()
    return hashlib.blake2b(numbers.tobytes(), digest_size=16).hexdigest()


def _plain(value):
    """Arrays and numbers of numpy as lists and numbers of Python."""
    if not hasattr(value, "tolist"):
        raise PlanError(f"a step has {value!r}, wanted numbers of examples and lists of them")
    return value.tolist()


@dataclass(frozen=True)
class Plan:
    """The steps of each epoch. All are whole (`ranks` is their number of ranks), or none is (`ranks` is None)."""

    epochs: list[list[Step]]
    num_examples: int
    ranks: int | None = None
    lengths: str = ""  # digest of the lengths, or "": they are not compared
    leaves_examples_out: bool = False

    @property
    def steps(self) -> list[Step]:
        """Those of the first epoch."""
        return self.epochs[0]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Replaces `path` by the plan file. The program checks its steps."""
        header = {"packtrain_plan": VERSION, "num_examples": self.num_examples, "ranks": self.ranks,
                  "lengths": self.lengths, "leaves_examples_out": self.leaves_examples_out}
        temporary = f"{os.fspath(path)}.tmp"
        try:
            with open(temporary, "w", encoding="utf-8") as stream:
                self._write_line(stream, {key: value for key, value in header.items() if value})
                for epoch, steps in enumerate(self.epochs):
                    if epoch > 0:
                        self._write_line(stream, {"epoch": epoch})
                    for step in steps:
                        self._write_line(stream, {"examples" if self.ranks is None else "ranks": step})
            os.replace(temporary, path)
        except PlanError:
            os.unlink(temporary)
            raise

    @staticmethod
    def _write_line(stream, value) -> None:
        stream.write(json.dumps(value, separators=(",", ":"), default=_plain) + "\n")


def make_plan(epochs: Sequence[Iterable[Step]], lengths: Sequence[int], leaves_examples_out: bool = False) -> Plan:
    """A plan of steps that the caller made for these lengths."""
    steps = [list(epoch) for epoch in epochs]
    if not steps or not all(steps):
        raise PlanError("an epoch has no step: give at least one step for each epoch")
    first = steps[0][0]
    ranks = len(first) if len(first) > 0 and hasattr(first[0], "__len__") else None
    return Plan(steps, len(lengths), ranks, _digest(lengths), leaves_examples_out)


def write_plan(path: str | os.PathLike[str], steps: Iterable[Step], lengths: Sequence[int],
               leaves_examples_out: bool = False) -> None:
    """Writes one epoch. A step is a list of examples, or [rank][micro-batch] lists of examples."""
    make_plan([steps], lengths, leaves_examples_out).write(path)


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """Reads a plan file. Checks its header only; the program checks the rest."""
    with open(path, encoding="utf-8") as stream:
        lines = [json.loads(line) for line in stream if line.strip()]
    if not lines or lines[0].get("packtrain_plan") != VERSION:
        raise PlanError(f"{path}: got no header with packtrain_plan: {VERSION}, so that this is no plan file")
    header = lines[0]
    epochs: list[list[Step]] = [[]]
    for line in lines[1:]:
        if line.get("epoch", 0) > 0:
            epochs.append([])
        elif "epoch" not in line:
            epochs[-1].append(line["ranks"] if "ranks" in header else line["examples"])
    return Plan(epochs, header["num_examples"], header.get("ranks"), header.get("lengths", ""),
                header.get("leaves_examples_out", False))


def read_lengths(store: str | os.PathLike[str]) -> Sequence[int]:
    """The number of tokens of each example of a store of `packtrain prepare`, in order. Reads no token."""
    folder = os.fspath(store)
    with open(f"{folder}/store.json", encoding="utf-8") as stream:
        shards = json.load(stream)["shards"]
    lengths = array.array("i")
    for shard in shards:
        with open(f"{folder}/{shard['file']}", "rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            begin, end = json.loads(stream.read(size))["offsets"]["data_offsets"]  # safetensors
            stream.seek(8 + size + begin)
            offsets = array.array("q", stream.read(end - begin))
        lengths.extend(after - before for before, after in itertools.pairwise(offsets))
    return lengths


def _program() -> list[str]:
    """The program of the installed package, of a checkout with a build, or on PATH."""
    if os.environ.get("PACKTRAIN_PROGRAM"):
        return [os.environ["PACKTRAIN_PROGRAM"]]
    if os.path.exists(f"{HOME}/bin/packtrain"):
        return [sys.executable, "-m", "packtrain"]
    built = os.path.normpath(f"{HOME}/../../../build/bin/packtrain")
    found = built if os.path.exists(built) else shutil.which("packtrain")
    if found is None:
        raise PlanError(f"got no program, neither {built} nor packtrain on PATH: run launch/build, or set "
                        "PACKTRAIN_PROGRAM to its path")
    return [found]


def plan(lengths: Sequence[int], *, ranks: int = 1, global_batch_size: int = 64, max_tokens: int = 16384,
         strategy: str = "balanced", order: str = "random", seed: int = 0, epochs: int = 1, hidden_size: int = 4096,
         settings: Iterable[str] = ()) -> Plan:
    """The plan that packtrain makes of examples of these lengths, with every token but the first supervised.

    `ranks` is the number of ranks that train different micro-batches. `global_batch_size` counts examples of a step.
    `max_tokens` is the most that a micro-batch holds. An example of L tokens costs L + L^2 / (6 hidden_size).
    `settings` are further ones, such as "batch.micro_batch_size=8". Raises PlanError with the program's text."""
    values = [f"data.max_length={max(lengths, default=1)}", f"batch.global_batch_size={global_batch_size}",
              f"batch.max_tokens_per_micro_batch={max_tokens}", f"batch.strategy={strategy}", f"batch.order={order}",
              f"run.seed={seed}", f"run.num_epochs={epochs}", *settings]
    with tempfile.TemporaryDirectory(prefix="packtrain-plan-") as folder:
        with open(f"{folder}/lengths", "w", encoding="utf-8") as stream:
            stream.writelines(f"{int(length)}\n" for length in lengths)
        words = [*_program(), "plan", "--lengths", f"{folder}/lengths", "--write-plan", f"{folder}/plan",
                 "--ranks", str(ranks), "--hidden-size", str(hidden_size), *values]
        result = subprocess.run(words, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise PlanError(result.stderr.strip())
        return read_plan(f"{folder}/plan")

"""The program's plan of a step, and the stores of its examples."""

import json
import subprocess
import sys

import numpy as np

from packtrain_tools.errors import ToolError
from packtrain_tools.store_reader import StoreReader


def ask_program(command: list[str]) -> str:
    """Returns the program's output, and raises its error as a ToolError."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("packtrain: ")
        raise ToolError(said or f"packtrain {command[1]} failed", exit_code=done.returncode)
    return done.stdout


class PlannedStep:
    def __init__(self, program: str, config: str, overrides: list[str], step: int, num_ranks: int):
        plan = json.loads(ask_program([program, "plan", config, *overrides, "--json", "--ranks",
                                       str(num_ranks), "--first-step", str(step), "--steps", "1"]))
        self.step = step
        self.num_steps = plan["num_steps"]
        self.strategy = plan["strategy"]
        if not plan["steps"]:
            raise ToolError(f"{config}: has no step {step}: the run has the steps "
                            f"0..{self.num_steps - 1}")
        self._ranks = plan["steps"][0]["ranks"]
        self._rows = plan["steps"][0]["rows"]
        self.origins = plan["steps"][0]["origins"]
        for warning in plan["warnings"]:
            print(f"packtrain plan: warning: {warning['what']}", file=sys.stderr)

    def micro_batches(self, rank: int) -> list[list[tuple[int, int, int]]]:
        """[micro-batch][piece]{example, begin, length}"""
        return self._ranks[rank]

    def rows(self, rank: int) -> list[int]:
        return self._rows[rank]


class PlannedExamples:
    """Examples by their numbers in the plan, which are consecutive over all stores of data.train."""

    def __init__(self, origins: dict[str, tuple[str, int]]):
        """`origins`: from `packtrain plan --json --steps`, an example's store and its number in the store."""
        self._origins = origins
        self._readers: dict[str, StoreReader] = {}

    def example(self, number: int) -> tuple[str, int, np.ndarray, np.ndarray, str]:
        """Its store, its number there, input_ids, loss_mask, and its source's name."""
        path, local = self._origins[str(number)]
        if path not in self._readers:
            self._readers[path] = StoreReader(path)
        reader = self._readers[path]
        ids, mask, source = reader.example(local)
        return path, local, ids, mask, reader.info["sources"][source]

"""What the program plans for a step, and the stores its examples come from."""

import json
import subprocess
import sys

import numpy as np

from packtrain_tools.errors import ToolError
from packtrain_tools.report_runs import parse_config
from packtrain_tools.store_reader import StoreReader


def ask_program(command: list[str]) -> str:
    """What it prints; its own error becomes ours."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("packtrain: ")
        raise ToolError(said or f"packtrain {command[1]} failed", exit_code=done.returncode)
    return done.stdout


class PlannedStep:
    def __init__(self, program: str, config: str, overrides: list[str], step: int, num_ranks: int):
        resolved = parse_config(ask_program([program, "config", config, *overrides]))
        self.train_stores = _train_stores(resolved["data.train"])
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
        for warning in plan["warnings"]:
            print(f"packtrain plan: warning: {warning['what']}", file=sys.stderr)

    def micro_batches(self, rank: int) -> list[list[tuple[int, int, int]]]:
        """[micro-batch][piece]{example, begin, length}"""
        return self._ranks[rank]

    def rows(self, rank: int) -> list[int]:
        return self._rows[rank]


def _train_stores(value: str) -> list[tuple[str, int]]:
    """Paths and repeats of data.train."""
    stores = json.loads(value)
    if isinstance(stores, str):
        return [(stores, 1)]
    return [(store, 1) if isinstance(store, str) else (store["path"], store.get("repeats", 1))
            for store in stores]


class JoinedStores:
    """The examples of several stores in the order of framework/data/joined_store.h: store by store,
    each as often as it repeats."""

    def __init__(self, stores: list[tuple[str, int]]):
        self._stores = [(path, repeats, StoreReader(path)) for path, repeats in stores]

    def example(self, number: int) -> tuple[str, int, np.ndarray, np.ndarray, str]:
        """Its store, its number there, input_ids, loss_mask, and its source's name."""
        for path, repeats, reader in self._stores:
            num_examples = reader.info["num_examples"]
            if number < num_examples * repeats:
                ids, mask, source = reader.example(number % num_examples)
                return path, number % num_examples, ids, mask, reader.info["sources"][source]
            number -= num_examples * repeats
        raise ToolError(f"the plan names an example {number} beyond the last of data.train")

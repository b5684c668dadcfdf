"""Measures a setting: the strategies of ours, and the peer's with the same batches; stores the figures."""

import json
import os
import shutil
import signal
import sys
import time

import programs
from gpu_monitor import GpuMonitor
from paper_cases import OF_PEERS, PACKS, SAME_BATCHES, STRATEGIES
from programs import (Failure, call, plan, prepare_store, read_steps, start_peer,
                      summarize_steps)
from rebalance import write_rebalanced

SIDES = ("ours", "peer")
WAYS = ("shard", "local")  # sides of ours too, with that parallel.accumulate
SHORTEST_RUN_S = 20


class Bench:
    """Measures one setting; `results` by side, then by strategy. `arguments`: out, strategies, steps,
    warm_up, timeout, settings."""

    def __init__(self, setting, arguments, deadline):
        self.setting, self.arguments, self.deadline = setting, arguments, deadline
        self.out = os.path.abspath(arguments.out)
        self.path = os.path.join(self.out, setting.name + ".json")
        self.results = {side: {} for side in (*SIDES, *WAYS, "errors")}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                self.results |= json.load(file)

    def log(self, name):
        return os.path.join(self.out, "logs", f"{self.setting.name}-{name}.log")

    def settings(self, strategies):
        name = f"{self.setting.lengths}-{self.setting.store_vocab_size}"
        store = prepare_store(os.path.join(self.out, "stores", name),
                              *self.setting.store_arguments())
        return [*self.setting.overrides(strategies), f"data.train={store}",
                *self.arguments.settings]

    def save(self, side, strategies, figures, error=None):
        self.results[side] |= figures
        names = f"{side}, {' and '.join(strategies)}"
        self.results["errors"].pop(names, None)
        if error:
            self.results["errors"][names] = error
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self.results, file, indent=1)
        rates = ", ".join(f"{name} {row['tok_s_mean']:,.0f}" for name, row in figures.items())
        print(f"{self.setting.name} {side}: {rates} {error or ''}", file=sys.stderr, flush=True)

    def missing(self, side, strategies):
        return [name for name in strategies
                if name in self.arguments.strategies and name not in self.results[side]]

    def time_limit(self, num_strategies):
        left = self.deadline - time.monotonic()
        wanted = self.arguments.timeout * num_strategies
        return min(left, wanted) if left >= SHORTEST_RUN_S else None

    def attempt(self, side, measure, strategies):
        missing = self.missing(side, strategies)
        timeout = self.time_limit(len(missing))
        if not missing or timeout is None:
            return
        error = None
        try:
            found = measure(side, missing, strategies, timeout)
        except Failure as failure:
            found, error = failure.rows or {}, str(failure)
        self.save(side, strategies, found, error)

    def measure_ours(self, side, missing, strategies, timeout):
        """Runs all missing strategies in one job; a failure keeps what was finished before. The densest
        comes first, because the smaller products of the others reuse its timed algorithms."""
        num_gpus = self.setting.num_gpus
        log = self.log(f"{side}-{strategies[0]}")
        way = [f"parallel.accumulate={side}"] if side in WAYS else []
        folder = log.removesuffix(".log")
        shutil.rmtree(folder, ignore_errors=True)
        command = [programs.LAUNCHER, "-n", str(num_gpus), "compare", self.setting.config,
                   *self.settings(strategies), *way, f"run.max_steps={self.arguments.steps + 1}",
                   "run.num_epochs=1000", "checkpoint.save_final=false", "metrics.serve=false",
                   "--strategies", ",".join(reversed(missing)), "--out", folder]
        failure = None
        with GpuMonitor(num_gpus) as monitor:
            try:
                call(command, log, timeout, first_signal=signal.SIGQUIT)
            except Failure as caught:
                failure = caught
        found = {name: row | monitor.summary() for name in missing
                 if (row := self.read_run(os.path.join(folder, f"{name}-seed-0")))}
        if failure:
            failure.rows = found
            raise failure
        return found

    def read_run(self, folder):
        """Figures of a run with enough steps; the last step's time is too short."""
        steps = read_steps(os.path.join(folder, "metrics.jsonl"))
        if len(steps) < self.arguments.steps:
            return None
        steps = steps[self.arguments.warm_up:self.arguments.steps]
        figures = summarize_steps(steps, self.setting.num_gpus)
        for key in ("padding_fraction", "cost_imbalance", "mfu"):
            known = [step[key] for step in steps if step.get(key) is not None]
            figures[key] = sum(known) / len(known) if known else None
        return figures

    def write_plan(self, strategy):
        """The path of a file with the steps of ours, micro-batch by micro-batch."""
        path = self.log(f"plan-{strategy}").removesuffix(".log") + ".json"
        if strategy in OF_PEERS:
            write_rebalanced(self.write_plan("balanced"), path)
            return path
        settings = [*self.settings(PACKS if strategy in PACKS else SAME_BATCHES),
                    f"batch.strategy={strategy}", "run.num_epochs=1000",
                    f"run.max_steps={self.arguments.steps}"]
        plan(self.setting.config, settings, self.setting.num_gpus, path, self.arguments.steps)
        return path

    def write_plans(self, strategies):
        """Padding comes last, because it takes most memory."""
        return [self.write_plan(name)
                for name in sorted(strategies, key=lambda name: name == "padding")]

    def peer_steps(self):
        return ["--warm-up", str(self.arguments.warm_up),
                "--steps", str(self.arguments.steps - self.arguments.warm_up)]

    def measure_peer(self, _, missing, _strategies, timeout):
        """Measures all missing strategies in one process."""
        options = [*self.setting.peer_options, "--plan", ",".join(self.write_plans(missing)),
                   *self.peer_steps()]
        log = self.log("peer")
        with GpuMonitor(self.setting.num_gpus) as monitor:
            try:
                rows = start_peer("hf.py", options, self.setting.num_gpus, log, timeout, self.out)
            except Failure as failure:
                failure.rows = by_strategy(failure.rows)
                raise
        return {name: row | monitor.summary() for name, row in by_strategy(rows).items()}

    def run(self, side):
        if side == "peer":
            self.attempt(side, self.measure_peer, STRATEGIES + OF_PEERS)
            return
        for strategies in (SAME_BATCHES, PACKS):
            self.attempt(side, self.measure_ours, strategies)


def by_strategy(rows):
    """The faster way to accumulate gradients, with both speeds."""
    found = {}
    for row in sorted(rows, key=lambda row: row["tok_s_mean"]):
        way = "local" if row["local_accumulation"] else "reduced"
        speeds = found.get(row["strategy"], {}).get("speeds", {})
        found[row["strategy"]] = row | {"speeds": speeds | {way: row["tok_s_mean"]}}
    return found

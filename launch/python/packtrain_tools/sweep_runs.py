"""Runs of a sweep: reads the state of each, and starts the unfinished ones."""

import json
import os
import subprocess
from dataclasses import dataclass, field

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.job_queue import Job
from packtrain_tools.program import LAUNCHER
from packtrain_tools.run_figures import figures, of_adapter, read_history

STOPPED = 75
STATE_FILE = "sweep-state.json"  # in a run's folder: how its last job ended


@dataclass
class Run:
    name: str
    hash: str
    values: dict[str, str]  # by column
    folder: str
    config: str  # YAML
    adapters: "list[AdapterOfRun]" = field(default_factory=list)  # empty: the run trains no list of them

    def __post_init__(self):
        self.state = self._read_state()
        self.figures: dict[str, float] = {}

    @classmethod
    def of_description(cls, description: dict, columns: list[str]) -> "Run":
        values = dict(zip(columns, description.get("values", [])))
        run = cls(description["name"], description["hash"], values, description["folder"], description["config"])
        run.adapters = [AdapterOfRun(run, one["name"], one["hash"], dict(zip(columns, one["values"])), one["config"])
                        for one in description.get("adapters", [])]
        if run.is_begun:
            run._read_figures()
        return run

    @property
    def results(self) -> "list[Run] | list[AdapterOfRun]":
        """What the table shows: this run, or each of its adapters."""
        return self.adapters or [self]

    def _read_figures(self):
        history = read_history(self.folder)
        self.figures = figures(history)
        for one in self.adapters:
            one.figures = figures(of_adapter(history, one.adapter))

    @property
    def _state_path(self) -> str:
        return os.path.join(self.folder, STATE_FILE)

    @property
    def log(self) -> str:
        return os.path.join(self.folder, "job.log")

    def _read_state(self) -> dict:
        """The state includes the full hash, because the folder's name has only a part of it."""
        try:
            with open(self._state_path, encoding="utf-8") as stream:
                state = json.load(stream)
        except (FileNotFoundError, ValueError):
            return {}
        return state if state.get("hash") == self.hash else {}

    @property
    def is_begun(self) -> bool:
        return bool(self.state)

    @property
    def is_finished(self) -> bool:
        return self.state.get("exit_code") == 0

    @property
    def has_failed(self) -> bool:
        return self.state.get("exit_code", STOPPED) not in (0, STOPPED)

    @property
    def status(self) -> str:
        if self.is_finished:
            return "finished"
        if self.has_failed:
            return f"failed ({self.state['exit_code']})"
        return "stopped" if self.is_begun else "not begun"

    def begin(self):
        """Call it before the job starts: a killed job then leaves a run that is not finished."""
        os.makedirs(self.folder, exist_ok=True)
        self._write("config.yaml", self.config)
        self._note({"exit_code": STOPPED, "seconds": self.state.get("seconds", 0)})

    def end(self, exit_code: int, seconds: float):
        if exit_code < 0:
            exit_code = 128 - exit_code
        self._read_figures()
        self._note({"exit_code": exit_code, "seconds": self.state.get("seconds", 0) + seconds})

    def _note(self, state: dict):
        self.state = {"hash": self.hash, **state}
        if self.has_failed:
            self.state["error"] = error_of(self.log)
        self._write(STATE_FILE, json.dumps(self.state) + "\n")

    def _write(self, name: str, text: str):
        write_atomically(os.path.join(self.folder, name), text)


@dataclass
class AdapterOfRun:
    """One of several adapters that a run trains, with the figures of a run of its own."""

    run: Run
    adapter: str  # its name in the run
    hash: str
    values: dict[str, str]  # by column
    config: str  # YAML: trains the adapter alone
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.run.name}/{self.adapter}"

    @property
    def folder(self) -> str:
        return self.run.folder

    @property
    def state(self) -> dict:
        return self.run.state

    @property
    def is_begun(self) -> bool:
        return self.run.is_begun

    @property
    def is_finished(self) -> bool:
        return self.run.is_finished

    @property
    def has_failed(self) -> bool:
        return self.run.has_failed

    @property
    def status(self) -> str:
        return self.run.status


Result = Run | AdapterOfRun


def write_atomically(path: str, text: str):
    with open(path + ".tmp", "w", encoding="utf-8", newline="") as stream:
        stream.write(text)
    os.replace(path + ".tmp", path)


def error_of(log: str, most: int = 400) -> str:
    """The error of a failed job: the program's own error with its advice, or the last lines."""
    try:
        with open(log, encoding="utf-8", errors="replace") as stream:
            lines = [line.rstrip() for line in stream if line.strip()]
    except OSError:
        return ""
    found = [k for k, line in enumerate(lines) if line.startswith("packtrain: ") and "error" in line]
    if not found:
        return " | ".join(lines[-3:])[-most:]
    text = lines[found[0]].removeprefix("packtrain: ")
    if len(lines) > found[0] + 1 and lines[found[0] + 1].startswith("  "):
        text += " | " + lines[found[0] + 1].strip()
    return text[:most]


def visible_gpus() -> list[str]:
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name for name in chosen.split(",") if name.strip()]
    try:
        found = subprocess.run(["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
                               capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return []
    return found.stdout.split()


def count_gpus(program: str) -> int:
    """GPUs that this build can use."""
    version = subprocess.run([program, "version"], capture_output=True, text=True, check=True).stdout
    return 0 if "without CUDA" in version else len(visible_gpus())


class Launcher:
    """Makes jobs of packtrain-run. Each of several concurrent jobs has its own GPUs and its share of
    cores."""

    def __init__(self, program: str, num_ranks: int, num_at_once: int):
        self.program, self.num_ranks, self.num_at_once = program, num_ranks, num_at_once
        self.script = LAUNCHER
        self.gpus = visible_gpus() if num_at_once > 1 else []
        needed = num_ranks * num_at_once
        if self.gpus and len(self.gpus) < needed:
            raise ToolError(f"sweep.at_once is {num_at_once} and sweep.ranks {num_ranks}: that "
                            f"takes {needed} GPUs, and {len(self.gpus)} are there",
                            "Lower one of them.", CONFIG)

    def job(self, run: Run, slot: int) -> Job:
        environment = {}
        if self.num_at_once > 1:
            cores = len(os.sched_getaffinity(0)) // (self.num_ranks * self.num_at_once)
            environment["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", str(max(1, cores)))
        if self.gpus:
            own = self.gpus[slot * self.num_ranks:(slot + 1) * self.num_ranks]
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(own)
        run.begin()
        return Job([self.script, "-n", str(self.num_ranks), "--program", self.program, "train",
                    os.path.join(run.folder, "config.yaml")], run.log, environment)

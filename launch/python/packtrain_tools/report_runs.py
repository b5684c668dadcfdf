"""A run's folder for a report, with the output of `packtrain plan` for the run."""

import json
import os
import subprocess

from packtrain_tools.errors import ToolError
from packtrain_tools.run_figures import figures, read_history

NUM_STEPS = 3  # steps whose packing is shown
PLAN_SECONDS = 120


def _read_json(path: str) -> dict:
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ToolError(f"{path}: is no valid JSON: {error}") from None


def parse_config(text: str) -> dict[str, str]:
    """Reads a config.yaml that packtrain wrote, with one key a line, to section.key -> value."""
    settings = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("  ") and ": " in line:
            key, value = line.strip().split(": ", 1)
            settings[f"{section}.{key}"] = value
        elif line.endswith(":") and not line.startswith((" ", "#")):
            section = line[:-1]
        elif ": " in line and not line.startswith("#"):  # a key without a section
            key, value = line.split(": ", 1)
            settings[key] = value
    return settings


class RunFolder:
    """`name` and `colour` distinguish it from other runs of the report."""

    def __init__(self, folder: str):
        self.folder = os.path.normpath(folder)
        self.config_path = os.path.join(folder, "config.yaml")
        if not os.path.exists(self.config_path):
            raise ToolError(f"{folder}: is no folder of a run: it has no config.yaml",
                            "Give what run.output was.")
        with open(self.config_path, encoding="utf-8") as stream:
            self.config_text = stream.read()
        self.name = os.path.basename(self.folder)
        self.colour = 0
        self.config = parse_config(self.config_text)
        self.history = read_history(folder)
        self.figures = figures(self.history)
        self.header = _read_json(os.path.join(folder, "plan.json"))
        self.memory = _read_json(os.path.join(folder, "memory.json"))
        self.plan: dict = {}
        self.no_plan = ""  # the reason when there is no plan

    def ask_plan(self, program: str):
        """Plans the run's first steps again, by FLOPs, to show their assignment to ranks."""
        entry = (self.header.get("entries") or [{}])[0]
        command = [program, "plan", self.config_path, "--json", "--steps", str(NUM_STEPS),
                   "--ranks", str(entry.get("num_ranks", 1))]
        if "max_tokens_per_micro_batch" in entry:
            command.append(
                f"batch.max_tokens_per_micro_batch={entry['max_tokens_per_micro_batch']}")
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PLAN_SECONDS,
                                  check=False)
        except subprocess.TimeoutExpired:
            self.no_plan = f"packtrain plan took longer than {PLAN_SECONDS} s"
            return
        if done.returncode == 0:
            self.plan = json.loads(done.stdout)
        else:
            self.no_plan = (done.stderr.strip().splitlines() or ["packtrain plan failed"])[0]


def differences(runs: list[RunFolder]) -> list[tuple[str, list[str]]]:
    """Keys whose values differ between runs, with each run's value; run.output is excluded."""
    keys = dict.fromkeys(key for run in runs for key in run.config)
    rows = [(key, [run.config.get(key, "-") for run in runs]) for key in keys]
    return [row for row in rows if row[0] != "run.output" and len(set(row[1])) > 1]

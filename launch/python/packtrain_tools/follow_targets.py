"""Programs that `packtrain follow` hands metrics to."""

import importlib
import json
import math
import os
import re
import sys
from typing import Any

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.event_file import EventFile
from packtrain_tools.sweep_runs import write_atomically

COMMAND_STEP = "evaluate_command/step"


def run_name(folder: str) -> str:
    return os.path.basename(os.path.abspath(folder))


def import_package(name: str):
    """A missing package is an error with its installation."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ToolError(f"there is no Python package {name}",
                        f"Install it where this runs: {sys.executable} -m pip install {name}", CONFIG) from None


def read_config(run: str) -> str:
    """The resolved configuration as text, because no YAML parser is among the required packages."""
    path = os.path.join(run, "config.yaml")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as stream:
        return stream.read()


class TensorBoard:
    """Starts from the beginning with each follower, and when the run has gone back, so that no step is
    written twice."""

    def __init__(self, folder: str):
        self._folder = folder
        self._file = EventFile(folder)

    def restart(self):
        self._file.close()
        self._file = EventFile(self._folder)

    def add(self, wall_time: float, step: int, scalars: dict):
        self._file.add(wall_time, step, scalars)

    def close(self):
        self._file.close()


class _State:
    """What a server was given: the id of its run and the last steps, in a file of the run's folder."""

    def __init__(self, run: str, file: str):
        self._path = os.path.join(run, file)
        self._values: dict[str, Any] = {"id": None, "step": -1, "command_step": -1}
        if os.path.exists(self._path):
            with open(self._path, encoding="utf-8") as stream:
                self._values.update(json.load(stream))

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __setitem__(self, key: str, value: Any):
        self._values[key] = value

    def save(self):
        write_atomically(self._path, json.dumps(self._values) + "\n")


class _Server:
    """Gets each step once, with its evaluation. Steps that a run repeats after a restart are not sent again. Numbers
    of run.evaluate_command come after later steps."""

    def __init__(self, run: str, file: str):
        self._state = _State(run, file)
        self._next: dict = {}  # scalars of the latest step, to which an evaluation is added
        self._next_step = -1

    def restart(self):
        pass

    def add(self, _wall_time: float, step: int, scalars: dict):
        if any(name.startswith("evaluate_command/") for name in scalars):
            if step > self._state["command_step"]:
                self._send_command(step, scalars)
                self._state["command_step"] = step
                self._state.save()
            return
        if step != self._next_step:
            self.flush()
        self._next_step = step
        self._next.update(scalars)

    def flush(self):
        if self._next and self._next_step > self._state["step"]:
            self._send(self._next_step, self._next)
            self._state["step"] = self._next_step
            self._state.save()
        self._next = {}

    def _send(self, step: int, scalars: dict):
        raise NotImplementedError

    def _send_command(self, step: int, scalars: dict):
        raise NotImplementedError


class Wandb(_Server):
    """The step can only increase there: numbers of a command have their step as a value."""

    def __init__(self, run: str, project: str):
        super().__init__(run, "wandb.json")
        text = read_config(run)
        self._run = import_package("wandb").init(project=project, name=run_name(run), id=self._state["id"],
                                                 resume="allow", config={"config_yaml": text} if text else {})
        self._state["id"] = self._run.id
        self._state.save()

    def _send(self, step: int, scalars: dict):
        self._run.log(scalars, step=step)

    def _send_command(self, step: int, scalars: dict):
        self.flush()
        self._run.define_metric("evaluate_command/*", step_metric=COMMAND_STEP)
        self._run.log({**scalars, COMMAND_STEP: step})

    def close(self):
        self.flush()
        self._run.finish()


class MLflow(_Server):
    """The server is that of MLFLOW_TRACKING_URI, as everywhere in MLflow."""

    def __init__(self, run: str, experiment: str):
        super().__init__(run, "mlflow.json")
        self._mlflow = import_package("mlflow")
        self._mlflow.set_experiment(experiment)
        known = self._state["id"]
        started = self._mlflow.start_run(run_id=known) if known else self._mlflow.start_run(run_name=run_name(run))
        self._state["id"] = started.info.run_id
        self._state.save()
        text = read_config(run)
        if text and not known:
            self._mlflow.log_text(text, "config.yaml")

    def _send(self, step: int, scalars: dict):
        # MLflow's names have letters, digits and _-. /, and its stores refuse NaN in part.
        numbers = {re.sub(r"[^\w\-. /]", "_", name): value for name, value in scalars.items() if math.isfinite(value)}
        if numbers:
            self._mlflow.log_metrics(numbers, step=step)

    def _send_command(self, step: int, scalars: dict):
        self._send(step, scalars)

    def close(self):
        self.flush()
        self._mlflow.end_run()

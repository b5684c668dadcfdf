"""Runs tasks of lm_eval with the model `packtrain`."""

import difflib
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
from lm_eval.utils import make_table

from packtrain_tools.errors import CONFIG, DATA, ToolError
from packtrain_tools.scoring.harness_model import PacktrainModel, refuse_generation

GENERATED = "generate_until"


class ScoredTasks(TaskManager):
    """Refuses tasks that generate text before any of them is run."""

    def load(self, task_list):
        loaded = super().load(task_list)
        generating = [name for name, task in loaded["tasks"].items() if task.OUTPUT_TYPE == GENERATED]
        if generating:
            refuse_generation(generating)
        return loaded


def find_tasks(names: list[str], include_path: str | None) -> ScoredTasks:
    tasks = ScoredTasks(include_path=include_path)
    for name in names:
        if not tasks.match_tasks([name]):
            near = difflib.get_close_matches(name, tasks.all_tasks, 1)
            raise ToolError(f"lm_eval has no task '{name}'" + (f", did you mean {near[0]}?" if near else ""),
                            "`lm_eval ls tasks` lists them; --include-path DIR adds your own.", CONFIG)
    return tasks


def evaluate(model: dict[str, Any], names: list[str], include_path: str | None, **options) -> tuple[str, dict]:
    """`model`: arguments of PacktrainModel; None stands for a default. `options`: of lm_eval's simple_evaluate.
    Returns a table and the results without the samples. Raises ToolError."""
    tasks = find_tasks(names, include_path)
    lm = PacktrainModel(**{name: value for name, value in model.items() if value is not None})
    try:
        results = simple_evaluate(lm, tasks=names, task_manager=tasks, log_samples=False, **options)
    except (OSError, ValueError, KeyError) as error:  # of data sets and tasks
        reason = str(error).strip().splitlines()
        raise ToolError(f"lm_eval: {type(error).__name__}: {reason[0][:300] if reason else ''}",
                        exit_code=DATA) from error
    table = make_table(results)
    if results.get("groups"):
        table += "\n" + make_table(results, "groups")
    return table, results

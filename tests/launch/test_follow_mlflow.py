"""packtrain follow --mlflow: what it hands to MLflow."""

import json

from followed_run import COMMAND, EVALUATION, Run, step_line
from mlflow_stand_in import MLFLOW


def mlflow_log(tmp_path, run):
    package = tmp_path / "packages"
    package.mkdir(exist_ok=True)
    (package / "mlflow.py").write_text(MLFLOW)
    log = tmp_path / "mlflow.log"
    run.follow("--mlflow", "mine", "--once", PYTHONPATH=str(package), MLFLOW_LOG=str(log))
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_mlflow_gets_each_finite_number_once_under_a_name_that_it_takes(tmp_path):
    line = {**step_line(2, None), "loss_by_source": {"web: a": 2.5}}
    run = Run(tmp_path, [step_line(1, 3.5), line, EVALUATION, COMMAND])
    (run.folder / "config.yaml").write_text("run: {}\n")
    entries = mlflow_log(tmp_path, run)
    assert entries[:3] == [{"experiment": "mine"}, {"run_id": None, "run_name": "flan"},
                           {"text": "run: {}\n", "name": "config.yaml"}]
    assert entries[-1] == {"ended": True}
    steps = {entry["step"]: entry for entry in entries if "train/grad_norm" in entry}
    assert steps[1]["train/loss"] == 3.5 and "train/loss" not in steps[2]
    assert steps[2]["validation/loss"] == 2.5 and steps[2]["train/loss_by_source/web_ a"] == 2.5
    assert {"step": 1, "evaluate_command/accuracy": 0.25} in entries
    run.append(step_line(3, 3.0))
    again = mlflow_log(tmp_path, run)[len(entries):]
    assert again[1] == {"run_id": "made-up", "run_name": None}
    assert [entry["step"] for entry in again if "step" in entry] == [3]

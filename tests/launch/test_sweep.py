"""packtrain sweep: the queue and its table with a stand-in for packtrain, and the sweeps of
configs/sweeps with the real one."""

import csv
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).parent
REPO = HERE.parent.parent
TOOL = REPO / "launch" / "python" / "sweep.py"
PROGRAM = os.environ["PACKTRAIN_PROGRAM"]


class Lab:
    """A sweep of fake runs in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.output = folder / "out"

    def describe(self, runs, columns=("batch.strategy",), **more):
        """`runs`: name -> (values, configuration's lines)."""
        description = {
            "program": str(HERE / "fake_trainer"), "output": str(self.output), "num_ranks": 1,
            "num_at_once": 1, "best": None, "columns": list(columns), "baseline": {},
            "runs": [{"name": name, "hash": f"{name}-hash", "values": values,
                      "folder": str(self.output / "runs" / name),
                      "config": "".join(f"{key}: {value}\n" for key, value in lines.items())}
                     for name, (values, lines) in runs.items()], **more}
        path = self.folder / "sweep.json"
        path.write_text(json.dumps(description))
        return path

    def start(self, path, *arguments, **environment):
        # A pipeline of CI may ignore SIGINT.
        return subprocess.Popen(
            [sys.executable, TOOL, path, *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**os.environ, **environment},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))

    def run(self, path, *arguments, exit_code=0, **environment):
        process = self.start(path, *arguments, **environment)
        output, errors = process.communicate(timeout=100)
        assert process.returncode == exit_code, errors
        return output, errors

    def num_starts(self, name):
        file = self.output / "runs" / name / "starts"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def rows(self):
        with open(self.output / "results.csv", encoding="utf-8", newline="") as stream:
            return {row["name"]: row for row in csv.DictReader(stream)}

    def wait_for(self, name, file, wanted="\n"):
        """The file's text, once `wanted` is in it."""
        path = self.output / "runs" / name / file
        deadline = time.monotonic() + 100
        while not path.exists() or wanted not in path.read_text():
            assert time.monotonic() < deadline, f"{path} did not come"
            time.sleep(0.05)
        return path.read_text()


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


GOOD = {"padding": (["padding"], {"action": "train", "speed": 100, "validation_loss": 3.5}),
        "balanced": (["balanced"], {"action": "train", "speed": 250, "validation_loss": 3.25})}


def test_every_run_is_a_row_and_the_best_ones_configuration_is_written(lab):
    output, _ = lab.run(lab.describe(GOOD, baseline={"batch.strategy": "padding"}))
    rows = lab.rows()
    assert list(rows) == ["padding", "balanced"]
    row = rows["balanced"]
    assert row["status"] == "finished" and row["exit_code"] == "0"
    assert float(row["tokens_per_second_per_device"]) == 250  # warm-up steps do not count
    assert float(row["speedup"]) == 2.5
    assert float(row["loss_difference"]) == -0.25
    assert float(row["device_seconds"]) == pytest.approx(5 * 100 / 250)
    assert float(row["peak_memory_gib"]) == 1
    assert "| balanced | finished | 5 | 3.0000 | 3.2500 | -0.2500 | 250 | 2.50 | 1.00 | 25.0 %" in output
    assert "token imbalance" not in output  # 1 in every run
    assert (lab.output / "results.md").read_text() in output
    best = (lab.output / "best.yaml").read_text()
    assert best.startswith("# 2 of 2 runs finished; lowest validation loss: 3.2500 (balanced).\n")
    assert best.endswith("action: train\nspeed: 250\nvalidation_loss: 3.25\n")


def test_the_best_run_is_that_of_the_figure_asked_for(lab):
    lab.run(lab.describe(GOOD, best={"figure": "loss_difference", "lowest": False, "where": "s:1"},
                         baseline={"batch.strategy": "balanced"}))
    assert "highest loss - baseline: 0.2500 (padding)" in (lab.output / "best.yaml").read_text()


def test_an_unknown_figure_is_refused_before_anything_runs(lab):
    path = lab.describe(GOOD, best={"figure": "validation_los", "lowest": True, "where": "s.yaml:3:9"})
    _, errors = lab.run(path, exit_code=64)
    assert errors == ("packtrain sweep: s.yaml:3:9: sweep.best: unknown figure 'validation_los'\n"
                      "  Did you mean validation_loss?\n")
    assert lab.num_starts("padding") == 0


def test_a_failed_run_does_not_stop_the_rest_and_its_error_is_in_the_table(lab):
    runs = {"bad": (["bad"], {"action": "fail"}), "dead": (["dead"], {"action": "kill"}), **GOOD}
    output, errors = lab.run(lab.describe(runs), exit_code=65)
    assert "2 of 4 runs finished, 2 failed" in output
    rows = lab.rows()
    assert rows["bad"]["status"] == "failed (65)"
    assert rows["bad"]["error"] == "data error: stores/x: is no token store | Make it again."
    assert rows["dead"]["exit_code"] == "137" and "SIGKILL" in rows["dead"]["error"]
    assert rows["balanced"]["status"] == "finished"
    assert "- bad: exit code 65: data error: stores/x: is no token store" in output
    assert "is no token store" in (lab.output / "results.html").read_text()
    assert "is no token store" in errors


def test_what_is_finished_is_not_run_again_and_what_failed_is(lab):
    runs = {"bad": (["bad"], {"action": "fail"}), **GOOD}
    lab.run(lab.describe(runs), exit_code=65)
    _, errors = lab.run(lab.describe(runs), exit_code=65)
    assert "2 of 3 runs are finished" in errors
    assert [lab.num_starts(name) for name in runs] == [2, 1, 1]
    assert lab.rows()["balanced"]["tokens_per_second_per_device"] == "250"


def test_a_run_of_another_configuration_in_its_folder_is_not_taken_for_it(lab):
    path = lab.describe(GOOD)
    lab.run(path)
    description = json.loads(path.read_text())
    description["runs"][0]["hash"] = "another"
    path.write_text(json.dumps(description))
    lab.run(path)
    assert [lab.num_starts(name) for name in GOOD] == [2, 1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_run_saves_and_the_same_command_resumes(lab, number):
    runs = {"long": (["long"], {"action": "wait", "speed": 50}), **GOOD}
    path = lab.describe(runs)
    process = lab.start(path)
    lab.wait_for("long", "pid")
    process.send_signal(number)
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 75, errors
    assert "the same command continues" in errors
    assert lab.rows()["long"]["status"] == "stopped"
    assert lab.rows()["padding"]["status"] == "not begun"
    lab.run(path)
    assert {row["status"] for row in lab.rows().values()} == {"finished"}
    assert [lab.num_starts(name) for name in runs] == [2, 1, 1]


def test_a_second_interrupt_ends_the_run_immediately(lab):
    process = lab.start(lab.describe({"long": (["long"], {"action": "wait_for_ever"}), **GOOD}))
    lab.wait_for("long", "pid")
    process.send_signal(signal.SIGINT)
    lab.wait_for("long", "job.log", "stop requested")  # two signals at the same time would arrive as one
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=100)
    assert process.returncode == 75
    assert lab.num_starts("padding") == 0


def test_a_killed_sweep_leaves_no_job_running(lab):
    process = lab.start(lab.describe({"long": (["long"], {"action": "wait"})}))
    pid = int(lab.wait_for("long", "pid"))
    process.kill()
    process.communicate(timeout=100)
    deadline = time.monotonic() + 100
    while pathlib.Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "the job continues"
        time.sleep(0.05)
    assert (lab.output / "runs" / "long" / "saved").exists()
    output, _ = lab.run(lab.describe({"long": (["long"], {"action": "wait"})}), "--dry-run")
    assert output.startswith("stopped ")


def test_two_sweeps_in_one_folder_are_refused(lab):
    path = lab.describe({"long": (["long"], {"action": "wait", "speed": 1})})
    process = lab.start(path)
    lab.wait_for("long", "pid")
    _, errors = lab.run(path, exit_code=64)
    assert "another sweep is at work" in errors
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=100)


def test_seeds_are_one_row_with_a_deviation(lab):
    runs = {f"s{seed}": (["balanced", str(seed)],
                         {"action": "train", "speed": 100, "validation_loss": loss})
            for seed, loss in ((1, 3.0), (2, 4.0), (3, 5.0))}
    output, _ = lab.run(lab.describe(runs, columns=["batch.strategy", "run.seed"]))
    assert "| balanced | finished | 5 ± 0 | 3.0000 ± 0.0000 | 4.0000 ± 1.0000 |" in output
    assert output.count("| balanced |") == 1 and len(lab.rows()) == 3


def test_parallel_jobs_have_gpus_of_their_own(lab):
    runs = {name: ([name], {"action": "train", "speed": 10}) for name in "abcd"}
    lab.run(lab.describe(runs, num_at_once=2), CUDA_VISIBLE_DEVICES="4,5,6")
    given = [(lab.output / "runs" / name / "starts").read_text().strip() for name in runs]
    assert set(given) == {"4", "5"}


def test_more_gpus_than_there_are_is_refused(lab):
    path = lab.describe(GOOD, num_at_once=2, num_ranks=2)
    _, errors = lab.run(path, exit_code=64, CUDA_VISIBLE_DEVICES="0,1,2")
    assert "that takes 4 GPUs, and 3 are there" in errors


def test_a_dry_run_lists_the_runs_and_writes_nothing(lab):
    output, _ = lab.run(lab.describe(GOOD), "--dry-run")
    assert output.splitlines()[0].split() == ["not", "begun", "padding", "batch.strategy=padding"]
    assert "2 runs, 2 to train" in output
    assert not lab.output.exists()


def packtrain(*arguments, exit_code=0):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=REPO,
                          timeout=250, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == exit_code, done.stderr
    return done.stdout, done.stderr


SEVERAL_GPUS = {"falcon-7b", "gemma-3n-e2b", "gemma-4-e2b", "gemma-7b", "granite-8b-code", "llama-2-7b", "llama-3-8b",
                "mistral-7b", "olmo-2-7b", "olmo-3-7b", "olmo-7b", "phi-2", "phi-3-mini", "qwen1.5-moe-a2.7b",
                "starcoder2-7b"}


def test_the_sweep_over_families_has_every_model_for_one_gpu(tmp_path):
    output, _ = packtrain("sweep", "configs/sweeps/families.yaml", f"sweep.output={tmp_path}/out",
                          "--dry-run")
    runs = re.findall(r"^not begun +(\S+)-[0-9a-f]{8} ", output, re.MULTILINE)
    models = {path.stem for path in (REPO / "configs/families").glob("*.yaml")} - SEVERAL_GPUS
    assert sorted(runs) == sorted(f"{model},{strategy}" for model in models
                                  for strategy in ("padding", "padding_free", "balanced"))


def test_bad_input_names_file_key_and_advice(tmp_path):
    sweep = tmp_path / "s.yaml"
    sweep.write_text("sweep: {configs: configs/quickstart.yaml, output: out}\n"
                     "product: {optimizer.lerning_rate: [1]}\n")
    _, errors = packtrain("sweep", sweep, "--dry-run", exit_code=64)
    assert errors == (f"packtrain: configuration error: {sweep}:2:11: unknown key "
                      "'optimizer.lerning_rate'\n  Did you mean optimizer.learning_rate?\n")
    sweep.write_text("sweep: {configs: configs/quickstart.yaml, output: out}\n"
                     "product: {model.config.model_type: [llama, lama]}\n")
    _, errors = packtrain("sweep", sweep, "--dry-run", exit_code=64)
    assert "run lama-" in errors and "model_type" in errors


TINY = ("model.config={model_type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, "
        "num_attention_heads: 2, num_key_value_heads: 1, vocab_size: 512, max_position_embeddings: 512, "
        "rms_norm_eps: 1.0e-6, tie_word_embeddings: true}",
        "data.max_length=256", "batch.max_tokens_per_micro_batch=256", "run.max_steps=4",
        "run.evaluate_steps=0", "metrics.serve=false", "run.seed=0")


def test_the_sweep_over_densities_trains_and_resumes(tmp_path):
    for name, num_examples in (("train", 60), ("validation", 8)):
        packtrain("prepare", "--synthetic", "lognormal:3.7,0.9,4,200", "--examples", num_examples,
                  "--vocab-size", 512, "--out", tmp_path / name)
    command = ("sweep", "configs/sweeps/density.yaml", f"sweep.output={tmp_path}/out",
               f"data.train={tmp_path}/train", f"data.validation={tmp_path}/validation",
               "batch.global_batch_tokens=[256,512]", "batch.strategy=[balanced,multipack]", *TINY)
    output, _ = packtrain(*command)
    assert "4 of 4 runs finished; lowest validation loss" in output
    with open(tmp_path / "out" / "results.csv", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["steps"] for row in rows} == {"4"}
    assert all(5 < float(row["validation_loss"]) < 7 for row in rows)
    _, errors = packtrain(*command, "batch.strategy=[balanced]")
    assert "2 of 2 runs are finished" in errors and "starts" not in errors
    # The best run's configuration is one that trains.
    best = tmp_path / "out" / "best.yaml"
    packtrain("train", best, f"run.output={tmp_path}/again", "run.max_steps=1")


def test_a_store_that_is_not_there_fails_its_runs_alone(tmp_path):
    packtrain("prepare", "--synthetic", "constant:20", "--examples", 40, "--vocab-size", 512, "--out",
              tmp_path / "train")
    sweep = tmp_path / "s.yaml"
    sweep.write_text(f"sweep: {{configs: configs/quickstart.yaml, output: {tmp_path}/out}}\n"
                     f"settings: {{data.validation: null}}\n"
                     f"product: {{data.train: [{tmp_path}/nowhere, {tmp_path}/train]}}\n")
    output, _ = packtrain("sweep", sweep, *TINY, exit_code=65)
    assert "1 of 2 runs finished, 1 failed" in output
    assert "exit code 65: data error" in output and f"{tmp_path}/nowhere" in output

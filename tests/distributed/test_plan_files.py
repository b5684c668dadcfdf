"""batch.strategy: file trains the steps of a plan file, which our program, our package and strategies of others write."""

import collections
import json
import os
import pathlib
import subprocess
import sys

import pytest
from runs import assert_bit_equal, losses, steps, take_checkpoint

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "launch" / "python"
EPOCH = ["run.max_steps=null", "run.num_epochs=1", "data.validation="]
STRATEGIES = {"best_fit_decreasing": ["--packs-per-rank", "8", "--max-tokens", "512"],
              "karmarkar_karp": ["--global-batch-size", "16", "--max-tokens", "512"],
              "batch_rebalance": ["--global-batch-size", "16", "--micro-batches", "2", "--max-tokens", "1024"]}


def from_file(path):
    return ["batch.strategy=file", f"batch.plan_file={path}"]


@pytest.fixture(scope="module")
def copied(lab):
    """The plan of the balanced run of two ranks as a file."""
    path = lab.folder / "balanced.jsonl"
    code, _, err = lab.finish(lab.start("planned", "--ranks", "2", "--write-plan", str(path), command="plan"))
    assert code == 0, err
    return path


@pytest.fixture(scope="module")
def trained(lab, copied):
    return lab.run("of-file", *from_file(copied), "checkpoint.save_steps=5", "checkpoint.keep=9", ranks=2)


def refusal(lab, name, *settings, ranks=2):
    code, _, err = lab.finish(lab.start(name, *settings, ranks=ranks))
    assert code != 0
    return code, err


def test_a_copy_of_the_balanced_plan_trains_bit_by_bit_as_balanced_does(lab, trained):
    assert_bit_equal(trained, lab.run("of-balanced", ranks=2))


def test_a_resumed_run_of_a_file_continues_bit_by_bit(lab, copied, trained):
    take_checkpoint(trained, 5, lab.folder / "runs" / "of-file-again")
    again = lab.run("of-file-again", *from_file(copied), ranks=2)
    assert losses(again) == losses(trained)[5:]


def test_a_resume_with_another_file_is_refused_even_where_changes_are_allowed(lab, copied, trained):
    lines = copied.read_text().splitlines(keepends=True)
    other = lab.folder / "other.jsonl"
    other.write_text("".join([lines[0], lines[2], lines[1], *lines[3:]]))
    take_checkpoint(trained, 5, lab.folder / "runs" / "other-file")
    code, err = refusal(lab, "other-file", *from_file(other))
    assert code == 66 and "batch.plan_file" in err, err
    code, err = refusal(lab, "other-file", *from_file(other), "checkpoint.allow_changed=[batch.plan_file]")
    assert code == 66 and "continues with the same batches" in err, err


def test_a_plan_for_two_ranks_is_refused_by_one(lab, copied):
    code, err = refusal(lab, "of-one", *from_file(copied), ranks=1)
    assert code == 64 and "the plan is for 2 ranks, but this run has 1" in err and "serve any number" in err, err


def test_ranks_with_different_files_are_refused(lab, copied):
    lines = copied.read_text().splitlines(keepends=True)
    for rank, chosen in enumerate((lines, [lines[0], lines[2], lines[1], *lines[3:]])):
        (lab.folder / f"host-{rank}").mkdir()
        (lab.folder / f"host-{rank}" / "plan.jsonl").write_text("".join(chosen))
    folders = {rank: {"--chdir": lab.folder / f"host-{rank}"} for rank in (0, 1)}  # an option of env
    code, _, err = lab.finish(lab.start("different", *from_file("plan.jsonl"), ranks=2, rank_environment=folders))
    assert code == 65 and "these are different plans" in err, err


def test_steps_without_ranks_train_on_any_number_of_ranks(lab, copied):
    lines = [json.loads(line) for line in copied.read_text().splitlines()]
    path = lab.folder / "steps.jsonl"
    with path.open("w") as stream:
        stream.write(json.dumps({"packtrain_plan": 1, "num_examples": 240}) + "\n")
        for line in lines[1:]:
            if "ranks" in line:
                line = {"examples": [e for rank in line["ranks"] for micro_batch in rank for e in micro_batch]}
            stream.write(json.dumps(line) + "\n")
    one, two = (lab.run(f"steps-{ranks}", *from_file(path), "run.max_steps=6", ranks=ranks) for ranks in (1, 2))
    assert losses(one) == pytest.approx(losses(two), rel=1e-5)


@pytest.fixture(scope="module", params=STRATEGIES)
def plan_of_others(lab, request):
    path = lab.folder / f"{request.param}.jsonl"
    words = [sys.executable, "-m", f"packtrain.strategies.{request.param}", "--store", str(lab.train_store),
             "--ranks", "2", "--out", str(path), *STRATEGIES[request.param]]
    subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    return request.param, path


def test_a_strategy_of_others_trains_each_example_once(lab, plan_of_others):
    name, path = plan_of_others
    run = lab.run(name, *EPOCH, *from_file(path), "metrics.example_losses=true", ranks=2)
    lines = [json.loads(line) for log in (run / "examples").glob("rank-*.jsonl") for line in log.open()]
    assert collections.Counter(line["example"] for line in lines) == dict.fromkeys(range(240), 1)
    assert len(steps(run)) == len(path.read_text().splitlines()) - 1


def test_a_strategy_of_others_is_verified_and_planned(lab, plan_of_others):
    name, path = plan_of_others
    code, out, err = lab.finish(lab.start(name, *from_file(path), "--json", ranks=2, command="verify"))
    assert code == 0, err
    report = json.loads(out)
    assert report["ok"] and report["strategy"] == "file"
    code, out, err = lab.finish(lab.start(name, *EPOCH, *from_file(path), "--ranks", "2", "--json", command="plan"))
    assert code == 0, err
    planned = json.loads(out)
    assert planned["strategy"] == "file" and planned["num_steps"] == len(path.read_text().splitlines()) - 1


def test_a_comparison_takes_a_file_as_a_strategy(lab, copied):
    words = ["--strategies", "balanced,file", f"batch.plan_file={copied}", "run.max_steps=4"]
    code, _, err = lab.finish(lab.start("files", *words, ranks=2, command="compare"))
    assert code == 0, err
    folder = lab.folder / "runs" / "files"
    assert losses(folder / "balanced-seed-5") == losses(folder / "file-seed-5")


def test_plan_names_examples_that_a_file_leaves_out(lab):
    path = lab.folder / "part.jsonl"
    path.write_text('{"packtrain_plan": 1, "num_examples": 240, "leaves_examples_out": true}\n{"examples": [7, 3]}\n')
    code, _, err = lab.finish(lab.start("part", *EPOCH, *from_file(path), command="plan"))
    assert code == 0, err
    assert "leaves out 238 of 240 examples of the first epoch" in err, err

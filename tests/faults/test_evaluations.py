"""Evaluations that fail, are broken off or run out of memory: what was trained is saved, and the run makes up for them."""

import json
import os
import signal
import struct
import time

import pytest
from runs import assert_bit_equal, losses, steps
from watch import ranks_of, wait_for_step

RUN = ["run.max_steps=4"]


def lines(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def evaluations(run):
    return [line for line in lines(run) if "validation_loss" in line]


def state(run, step):
    return json.loads((run / "checkpoints" / f"step-{step}" / "manifest.json").read_text())["state"]


def spoil(store):
    """Overwrites all numbers of the store with invalid ones, in place. Returns the file and its original bytes."""
    (part,) = store.glob("part-*.safetensors")
    whole = part.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    with part.open("r+b") as file:
        file.seek(header)
        file.write(b"\xff" * (len(whole) - header))
    return part, whole


@pytest.mark.parametrize("ranks, every, failed", [(1, 500, 4), (2, 2, 2)])
def test_an_evaluation_that_fails_costs_nothing_and_is_made_up_for(lab, ranks, every, failed):
    name = f"spoilt-{ranks}"
    settings = [*RUN, f"run.evaluate_steps={every}", "checkpoint.keep_best=1"]
    store = lab.make_store(f"{name}-store", 20, 12)
    whole = lab.run(f"{name}-whole", *settings, ranks=ranks)
    run = lab.folder / "runs" / name
    process = lab.start(name, *settings, f"data.validation={store}", "fault.kind=slow", "fault.step=2",
                        "fault.seconds=3", ranks=ranks)
    wait_for_step(run, 1)
    part, good = spoil(store)
    code, _, err = lab.finish(process)
    assert code == 65 and "Nothing that was trained is lost" in err, err
    assert state(run, failed)["evaluation_due"] and "validation_loss" not in state(run, failed)
    part.write_bytes(good)
    lab.run(name, *settings, f"data.validation={store}", ranks=ranks)
    assert_bit_equal(run, whole)
    assert [line["validation_loss"] for line in evaluations(run)] == \
        [line["validation_loss"] for line in evaluations(whole)]
    assert "evaluation_due" not in state(run, 4)
    assert state(run, 4)["validation_loss"] == evaluations(run)[-1]["validation_loss"]


def test_a_request_to_stop_in_an_evaluation_is_answered_before_its_end(lab):
    store = lab.make_store("endless", 40_000, 12)
    process = lab.start("stopped", *RUN, "run.evaluate_steps=2", f"data.validation={store}", ranks=2)
    run = lab.folder / "runs" / "stopped"
    wait_for_step(run, 2)
    time.sleep(1)
    os.kill(ranks_of(lab.folder / "stopped.yaml")[1], signal.SIGTERM)
    code, _, err = lab.finish(process)
    assert code == 75 and "stopped on request after step 2" in err, err
    assert not evaluations(run), "it was broken off"
    assert state(run, 2)["evaluation_due"]


def test_an_evaluation_out_of_memory_is_repeated_in_smaller_micro_batches(lab):
    train = lab.make_store("short", 64, 5, lengths="constant:32")
    store = lab.make_store("many", 200, 6, lengths="constant:32")
    settings = [*RUN, f"data.train={train}", f"data.validation={store}", "batch.global_batch_size=4",
                "batch.max_tokens_per_micro_batch=4096"]
    ample = lab.run("eval-ample", *settings)
    code, _, err = lab.finish(lab.start("eval-capped", *settings, f"debug.memory_cap_gib={9 / 1024}"))
    assert code == 0, err
    assert "begins again with" in err
    capped = lab.folder / "runs" / "eval-capped"
    assert losses(capped) == losses(ample)
    (found,), (want,) = evaluations(capped), evaluations(ample)
    assert found["validation_loss"] == pytest.approx(want["validation_loss"], rel=1e-6)


def test_waits_of_evaluations_are_not_a_steps(lab):
    store = lab.make_store("waits", 400, 12)
    run = lab.run("waits", *RUN, "run.evaluate_steps=1", f"data.validation={store}", "checkpoint.save_final=false",
                  ranks=2)
    for step, line in steps(run).items():
        assert line["comm_wait_s"] <= line["step_time_s"] + 1e-3, step


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_whose_checkpoints_are_all_damaged_is_not_evaluated(lab, ranks):
    name = f"damaged-{ranks}"
    run = lab.run(name, "run.max_steps=1")
    (part,) = (run / "checkpoints" / "step-1").glob("*.safetensors")
    os.truncate(part, part.stat().st_size - 1)
    code, out, err = lab.finish(lab.start(name, "run.max_steps=1", "--json", ranks=ranks, command="evaluate"))
    assert code == 66 and not out and "is whole (1 were tried)" in err, err
    part.parent.rename(run / "checkpoints" / "step-1.tmp")
    assert lab.evaluate(name, "run.max_steps=1", ranks=ranks)["loss"] > 0, "nothing was saved"

"""Faults of GPUs, on two of them: a part of tests/run --gpu."""

import os
import signal
import subprocess
import time

import pytest
from runs import losses, steps
from watch import ranks_of, wait_for_step

BF16 = ["precision.compute=bf16", "precision.reduce=bf16", "data.validation="]
LIMIT_S = 6
LONG = [*BF16, "run.max_steps=100000", "run.num_epochs=100000", f"guard.step_timeout_s={LIMIT_S}"]


def used_mebibytes():
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return sum(int(line) for line in subprocess.run(query, capture_output=True, text=True,
                                                    check=True).stdout.split())


def assert_memory_is_free(before):
    deadline = time.monotonic() + 15
    while used_mebibytes() > before + 64:
        assert time.monotonic() < deadline, f"{used_mebibytes()} MiB in use, {before} before"
        time.sleep(0.5)


@pytest.mark.parametrize("kind", ["hang", "spin", "skip_collective"])
def test_a_rank_that_stands_still_ends_the_run_in_time(lab, kind):
    before = used_mebibytes()
    process = lab.start(f"still-{kind}", *LONG, f"fault.kind={kind}", "fault.rank=1", "fault.step=20", ranks=2)
    wait_for_step(lab.folder / "runs" / f"still-{kind}", 15)
    begin = time.monotonic()
    code, _, err = lab.finish(process)
    seconds = time.monotonic() - begin
    print(f"{kind}: ended with {code} after {seconds:.1f} s")
    assert code == 72, err
    assert "no progress" in err and "latest collectives" in err and "injected on rank 1 at step 20" in err
    assert seconds < LIMIT_S + 10
    assert_memory_is_free(before)


def test_a_stopped_process_is_named(lab):
    before = used_mebibytes()
    process = lab.start("stopped", *LONG, ranks=2)
    wait_for_step(lab.folder / "runs" / "stopped", 10)
    os.kill(ranks_of(lab.folder / "stopped.yaml")[1], signal.SIGSTOP)
    code, _, err = lab.finish(process)
    assert code == 72 and "rank 1 has not run for" in err, err
    assert_memory_is_free(before)


def test_a_killed_process_ends_the_run_immediately(lab):
    before = used_mebibytes()
    process = lab.start("killed", *LONG, ranks=2)
    wait_for_step(lab.folder / "runs" / "killed", 10)
    os.kill(ranks_of(lab.folder / "killed.yaml")[1], signal.SIGKILL)
    begin = time.monotonic()
    code, _, _ = lab.finish(process)
    print(f"killed: ended with {code} after {time.monotonic() - begin:.1f} s")
    assert code not in (0, 75) and time.monotonic() - begin < 10
    assert_memory_is_free(before)


@pytest.fixture(scope="session")
def undisturbed(lab):
    return lab.run("undisturbed", *BF16, ranks=2)


@pytest.mark.parametrize("settings", [
    ["fault.block=2"], ["fault.block=1", "fault.backward=true", "fault.rank=-1"], ["parallel.zero_stage=2"],
    ["parallel.shard_size=1"]], ids=["forward", "backward of both", "stage 2", "replicas"])
def test_an_injected_end_of_memory_is_survived(lab, undisturbed, settings):
    run = lab.run("out-" + "-".join(settings), *BF16, "fault.kind=out_of_memory", "fault.step=6", "fault.rank=1",
                  *settings, ranks=2)
    assert losses(run) == pytest.approx(losses(undisturbed), rel=5e-3)
    assert {n: line["num_out_of_memory"] for n, line in steps(run).items() if line["num_out_of_memory"]} == {6: 1}


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_real_end_of_memory_is_survived_or_named(lab, ranks):
    store = lab.make_store(f"many-{ranks}", 4000, 13)
    settings = [*BF16, f"data.train={store}", "batch.global_batch_size=1024", "run.max_steps=6",
                "batch.max_tokens_per_micro_batch=65536"]
    whole = lab.run(f"ample-{ranks}", *settings, ranks=ranks)
    survived = []
    for mebibytes in (128, 192, 256, 1024):
        name = f"cap-{ranks}-{mebibytes}"
        code, _, err = lab.finish(lab.start(name, *settings, f"debug.memory_cap_gib={mebibytes / 1024}", ranks=ranks))
        print(f"{ranks} ranks, {mebibytes} MiB: {code}")
        if code != 0:
            assert code == 69 and "memory" in err, err
            continue
        run = lab.folder / "runs" / name
        assert losses(run) == pytest.approx(losses(whole), rel=5e-3)
        survived.append(sum(line["num_out_of_memory"] for line in steps(run).values()))
    print(f"{ranks} ranks: {survived} times out of memory")
    assert max(survived) >= 1, survived


@pytest.mark.parametrize("settings", [["parallel.zero_stage=2"], ["parallel.shard_size=1"], []],
                         ids=["stage 2", "replicas", "stage 3"])
def test_a_flipped_bit_is_found(lab, settings):
    code, _, err = lab.finish(lab.start("flip" + "".join(settings), *BF16, *settings, "guard.check_replicas_steps=3",
                                        "fault.kind=flip_bit", "fault.step=6", "fault.rank=1", ranks=2))
    assert code == 73 and "rank 0 and rank 1 differ" in err, err


def test_comparing_replicas_finds_nothing_where_nothing_is_wrong(lab, undisturbed):
    run = lab.run("compared", *BF16, "guard.check_replicas_steps=1", "parallel.shard_size=1", ranks=2)
    assert losses(run) == pytest.approx(losses(undisturbed), rel=5e-3)


def test_collectives_are_checked(lab):
    code, _, err = lab.finish(lab.start("mismatch", *BF16, "debug.check_collectives=true", "fault.rank=1",
                                        "fault.kind=skip_collective", "fault.step=3", ranks=2))
    assert code == 70 and "do not match: rank 1 of it is about to do call" in err, err

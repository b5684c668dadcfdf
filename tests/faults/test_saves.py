"""Tests asynchronous checkpoints, checkpoints on request, and checkpoints that cannot be written."""

import json
import resource
import shutil
import subprocess

import pytest
from runs import assert_bit_equal, steps, weights

SAVES = ["checkpoint.save_steps=3", "checkpoint.keep=10", "run.max_steps=10"]


def checkpoints(run):
    return sorted(int(path.name.split("-")[1]) for path in (run / "checkpoints").iterdir())


# On one rank only the copies' stream is delayed, far longer than a step takes.
@pytest.mark.parametrize("ranks, delay", [(1, []), (2, []), (1, ["debug.stream_delay_us=300000"])],
                         ids=["1", "2", "slow copies"])
def test_an_asynchronous_save_holds_the_state_of_its_step(lab, ranks, delay):
    name = f"{ranks}-{len(delay)}"
    at_once = lab.run(f"at-once-{name}", *SAVES, "checkpoint.asynchronous=false", ranks=ranks)
    beside = lab.run(f"beside-{name}", *SAVES, *delay, "checkpoint.asynchronous=true", ranks=ranks)
    assert_bit_equal(beside, at_once)
    assert checkpoints(beside) == checkpoints(at_once) == [3, 6, 9, 10]
    for step in (9, 6, 3):  # the newest goes first: weights() reads the newest
        for run in (at_once, beside):
            shutil.rmtree(run / "checkpoints" / f"step-{max(checkpoints(run))}")
        for kind in ("weight", "exp_avg", "exp_avg_sq"):
            wanted = weights(at_once, kind)
            found = weights(beside, kind)
            assert all((found[name] == wanted[name]).all() for name in wanted), (step, kind)


def test_a_request_in_the_run_folder_saves_after_the_step(lab):
    run = lab.folder / "runs" / "requested"
    run.mkdir(parents=True)
    (run / "checkpoint-now").touch()
    lab.run("requested", "run.max_steps=5", ranks=2)
    assert checkpoints(run) == [1, 5]
    assert not (run / "checkpoint-now").exists()


def in_the_way(lab, name):
    """A run whose checkpoints cannot be written: their folder is a file."""
    run = lab.folder / "runs" / name
    run.mkdir(parents=True)
    (run / "checkpoints").write_text("not a folder")
    return run


@pytest.mark.parametrize("beside", ["true", "false"])
def test_a_failed_save_is_survived_as_often_as_configured(lab, beside):
    run = in_the_way(lab, f"failing-{beside}")
    code, _, err = lab.finish(lab.start(f"failing-{beside}", "checkpoint.save_steps=2", "checkpoint.max_failed_saves=3",
                                        f"checkpoint.asynchronous={beside}", ranks=2))
    assert code == 66
    assert err.count("training continues") == 3 and "checkpoints" in err
    last = max(steps(run))
    assert last == (10 if beside == "true" else 8)  # the fourth failure is seen when the next is due
    assert sum(line["num_failed_saves"] for line in steps(run).values()) == 3


@pytest.fixture
def mount():
    """Mounts a file system on a folder, for as long as the test runs."""
    mounted = []

    def mount_on(folder, *options):
        folder.mkdir(parents=True)
        words = ["mount", "-t", "tmpfs", "-o", ",".join(options), "none", str(folder)]
        if subprocess.run(words, capture_output=True).returncode != 0:
            pytest.skip("mounting a file system needs a right that this user lacks")
        mounted.append(folder)

    yield mount_on
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("options, reason", [(["size=64k"], "the disk has"), (["ro"], "Read-only file system")],
                         ids=["64 KiB", "read-only"])
def test_a_disk_that_takes_no_checkpoint_costs_no_step(lab, mount, options, reason):
    run = lab.folder / "runs" / f"disk-{options[0]}"
    mount(run / "checkpoints", *options)
    code, _, err = lab.finish(lab.start(run.name, "checkpoint.save_steps=4", "checkpoint.save_final=false",
                                        "checkpoint.max_failed_saves=9", "data.validation=", ranks=2))
    assert code == 66 and reason in err, err  # of the last one, at the end of the run
    assert err.count("training continues") == 4
    undisturbed = lab.run("disk-none", "checkpoint.save_final=false", "data.validation=", ranks=2)
    assert [line["loss"] for line in steps(run).values()] == [line["loss"] for line in steps(undisturbed).values()]
    assert not list((run / "checkpoints").iterdir())


def test_a_limit_on_the_size_of_files_costs_no_step(lab):
    """`ulimit -f`: children of this process have it, too."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))  # a checkpoint has 2.4 MB
    try:
        process = lab.start("limited", "checkpoint.save_steps=4", "checkpoint.save_final=false",
                            "checkpoint.max_failed_saves=9", "data.validation=", "run.max_steps=9")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    code, _, err = lab.finish(process)
    run = lab.folder / "runs" / "limited"
    assert code == 66 and "File too large" in err, err
    assert len(steps(run)) == 9 and err.count("training continues") >= 1
    assert not list((run / "checkpoints").iterdir())


def test_a_disk_that_fills_up_while_a_checkpoint_is_written_keeps_the_older_ones(lab, mount):
    run = lab.folder / "runs" / "disk-fills"
    mount(run / "checkpoints", "size=6m")  # two checkpoints of 2.4 MB fit
    code, _, err = lab.finish(lab.start("disk-fills", *SAVES, "checkpoint.save_final=false", "data.validation=",
                                        ranks=2))
    assert code in (0, 66) and "the disk has" in err, err
    assert checkpoints(run) == [3, 6]
    shutil.copytree(run / "checkpoints" / "step-6", lab.folder / "runs" / "disk-other" / "checkpoints" / "step-6")
    resumed = steps(lab.run("disk-other", *SAVES, "data.validation=", ranks=2))
    whole = steps(lab.run("disk-unfilled", *SAVES, "data.validation=", ranks=2))
    assert sorted(resumed) == [7, 8, 9, 10]
    assert all(line["loss"] == whole[number]["loss"] for number, line in resumed.items())


def test_work_that_cannot_be_saved_at_the_end_is_an_error(lab):
    in_the_way(lab, "failing-end")
    code, _, err = lab.finish(lab.start("failing-end", "run.max_steps=3", ranks=2))
    assert code == 66
    assert "checkpoints" in err


def test_the_metrics_report_saves(lab):
    run = lab.run("told", *SAVES)
    lines = steps(run)
    assert lines[3]["checkpoint_step"] == 0 and lines[8]["checkpoint_step"] in (3, 6)
    assert sum(line["checkpoint_wait_s"] for line in lines.values()) > 0
    assert json.loads((run / "checkpoints" / "step-9" / "manifest.json").read_text())["state"]["guard"]["losses"]

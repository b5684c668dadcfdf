"""Files that answer no more: what waits for them is ended by the watchdog, which does not wait for them itself."""

import json
import pathlib
import shutil
import subprocess
import time

import pytest
from watch import assert_missed_in_time, ranks_of, wait_for_step

LIMIT_S = 6
COMPILER = shutil.which("cc") or shutil.which("gcc")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    target = tmp_path_factory.mktemp("hung") / "hung_files.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", str(target),
                    str(pathlib.Path(__file__).parent / "hung_files.c"), "-ldl"], check=True)
    return target


def variables(library, folder, switch):
    return {"LD_PRELOAD": str(library), "HUNG_FOLDER": str(folder), "HUNG_SWITCH": str(switch)}


def test_every_rank_ends_in_time_where_the_heartbeat_folder_hangs(lab, library, tmp_path):
    run = lab.folder / "runs" / "hung-signs"
    hung = variables(library, run / "progress", tmp_path / "switch")
    process = lab.start("hung-signs", f"guard.step_timeout_s={LIMIT_S}", "guard.start_timeout_s=120", "fault.kind=hang",
                        "fault.step=6", "fault.rank=1", ranks=2, rank_environment={0: hung, 1: hung})
    wait_for_step(run, 3)
    (tmp_path / "switch").touch()
    begin = time.monotonic()
    code, _, err = lab.finish(process, timeout=60)
    assert code == 72, err
    assert_missed_in_time(err, LIMIT_S)
    assert "missing: not known" in err
    assert time.monotonic() - begin < LIMIT_S + 20
    assert not ranks_of(lab.folder / "hung-signs.yaml")


@pytest.mark.parametrize("hangs", ["store", "signs"])
def test_a_rank_that_hangs_while_opening_ends_the_run_by_the_limit_of_the_start(lab, library, tmp_path, hangs):
    name = f"hung-{hangs}-at-start"
    folder = lab.train_store if hangs == "store" else lab.folder / "runs" / name / "progress"
    (tmp_path / "switch").touch()
    hung = variables(library, folder, tmp_path / "switch")
    begin = time.monotonic()
    process = lab.start(name, f"guard.start_timeout_s={LIMIT_S}", ranks=2, rank_environment={0: hung})
    code, _, err = lab.finish(process, timeout=90)
    assert code == 72, err
    assert "(start; guard.start_timeout_s is 6)" in err
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize("command", ["evaluate", "score", "verify"])
def test_a_rank_that_hangs_while_opening_ends_a_command_that_trains_nothing(lab, library, tmp_path, command):
    store = lab.train_store if command == "verify" else lab.validation_store
    (tmp_path / "switch").touch()
    hung = variables(library, store, tmp_path / "switch")
    options = ["--log-probs"] if command == "score" else []
    process = lab.start(f"hung-{command}", f"guard.start_timeout_s={LIMIT_S}", *options, ranks=2, command=command,
                        rank_environment={1: hung})
    code, _, err = lab.finish(process, timeout=90)
    assert code == 72, err
    assert "(start; guard.start_timeout_s is 6)" in err
    assert_missed_in_time(err, LIMIT_S)


def test_only_the_first_rank_reads_the_settings_of_earlier_runs_of_a_comparison(lab, library, tmp_path):
    words = ["--strategies", "balanced", "--json", "run.max_steps=2"]
    code, first, err = lab.finish(lab.start("again", *words, ranks=2, command="compare"))
    assert code == 0, err
    (tmp_path / "switch").touch()
    hung = variables(library, lab.folder / "runs" / "again" / "balanced-seed-5" / "config.yaml", tmp_path / "switch")
    process = lab.start("again", *words, ranks=2, command="compare", rank_environment={1: hung})
    code, again, err = lab.finish(process, timeout=90)
    assert code == 0, err
    assert json.loads(again)["runs"] == json.loads(first)["runs"]

"""Files of metrics that cannot be written: a warning, and no step is lost."""

import json
import resource
import subprocess

from runs import PROGRAM, slow_from, steps
from watch import wait_until

SHORT = ["run.max_steps=10", "checkpoint.save_final=false", "data.validation="]


def full_from_step(lab, name, step):
    """A run whose files cannot grow from about this step on. (process, the limit from before)"""
    process = lab.start(name, *SHORT, *slow_from(2, 9, seconds=0.5))
    run = lab.folder / "runs" / name
    wait_until(lambda: (run / "metrics.jsonl").exists() and len(steps(run)) >= step, "steps")
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    size = (run / "metrics.jsonl").stat().st_size
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size + 100, before[1]))
    return process, before


def test_a_file_that_cannot_grow_costs_no_step_and_has_whole_lines(lab):
    process, _ = full_from_step(lab, "full", 2)
    code, _, err = lab.finish(process)
    run = lab.folder / "runs" / "full"
    assert code == 0, err
    assert err.count("lines of this file wait in memory") == 1, err
    assert "metrics.jsonl: write failed: File too large" in err and "line(s) of this process are not in the file" in err
    assert "step 10/10" in err
    text = (run / "metrics.jsonl").read_text()
    assert text.endswith("\n") and 2 <= len(text.splitlines()) < 10
    assert all(json.loads(line)["num_unwritten_lines"] == 0 for line in text.splitlines())
    report = subprocess.run([PROGRAM, "report", str(run), "--out", str(run / "report.html")], capture_output=True, text=True)
    assert report.returncode == 0, report.stderr


def test_lines_that_waited_are_written_when_that_is_possible(lab):
    process, before = full_from_step(lab, "full-for-a-while", 2)
    run = lab.folder / "runs" / "full-for-a-while"
    assert any("wait in memory" in line for line in process.stderr)  # reads until this line
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
    code, _, err = lab.finish(process)
    assert code == 0, err
    lines = steps(run)
    assert list(lines) == list(range(1, 11))
    undisturbed = steps(lab.run("not-full", *SHORT))
    assert [line["loss"] for line in lines.values()] == [line["loss"] for line in undisturbed.values()]

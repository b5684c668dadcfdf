"""run.evaluate_command: a program that measures exported checkpoints while the run trains."""

import json
import signal
import subprocess
import time

import pytest
from checkpoint_programs import Program, ends_of_commands, wait_for_end
from runs import PATIENCE_S, PROGRAM, assert_bit_equal, slow_from, steps

SETTINGS = ["data.validation=", "run.max_steps=12", "checkpoint.save_steps=4"]
KEY = "run.evaluate_command"

MEASURES = """
from safetensors import safe_open
with safe_open(folder / "model.safetensors", "numpy") as weights:
    size = sum(abs(weights.get_tensor(name)).sum() for name in weights.keys())
note(step=step, folder=str(folder), files=sorted(os.listdir(folder)), export=os.environ["PACKTRAIN_EXPORT"],
     words=sys.argv[1:-1])
print("loading", folder)
print(json.dumps({"size": float(size), "step times two": 2 * step}))
print("done")
"""


def printed(run):
    """Returns the numbers by step."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["evaluate_command"] for line in lines if "evaluate_command" in line}


def wait_for(condition, process):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("ranks", [1, 2])
def test_numbers_of_each_checkpoint_become_metrics(lab, ranks):
    program = Program(lab.folder, f"measure-{ranks}", MEASURES)
    # Slow steps, so that one command is over before the next checkpoint.
    run = lab.run(f"measure-{ranks}", *SETTINGS, *slow_from(5, 8, 1.5), program.setting(KEY, "--fast"), ranks=ranks)
    found = printed(run)
    assert found and set(found) <= {4, 8, 12} and 12 in found
    assert all(numbers["step times two"] == 2 * step and numbers["size"] > 0 for step, numbers in found.items())
    for note in program.notes():
        assert note["folder"] == note["export"] == str(run / "evaluate_command" / f"step-{note['step']}")
        assert {"config.json", "model.safetensors"} <= set(note["files"])
        assert note["words"] == ["--fast"]
    assert not (run / "evaluate_command").exists(), "exports are removed"
    assert sorted(steps(run)) == list(range(1, 13))
    assert {command for command, _, succeeded in ends_of_commands(run) if succeeded} == {KEY}


def test_it_changes_no_bit_of_the_run(lab):
    program = Program(lab.folder, "bits", MEASURES)
    assert_bit_equal(lab.run("measured", *SETTINGS, program.setting(KEY)), lab.run("not-measured", *SETTINGS))


def test_the_log_and_the_report_show_the_numbers(lab):
    program = Program(lab.folder, "shown", 'print(json.dumps({"accuracy & more": 0.25}))')
    code, _, err = lab.finish(lab.start("shown", *SETTINGS, program.setting(KEY)))
    assert code == 0 and "step 12  accuracy & more 0.25" in err, err
    run = lab.folder / "runs" / "shown"
    page = lab.folder / "shown.html"
    subprocess.run([PROGRAM, "report", str(run), "--out", str(page)], check=True, capture_output=True)
    assert "accuracy &amp; more" in page.read_text() and "run.evaluate_command" in page.read_text()


def test_an_adapter_is_exported_as_a_peft_folder(lab):
    program = Program(lab.folder, "peft", """
note(step=step, files=sorted(os.listdir(folder)))
print(json.dumps({"rank": json.loads((folder / "adapter_config.json").read_text())["r"]}))
""")
    run = lab.run("peft", *SETTINGS, "checkpoint.save_steps=0", "adapter.kind=lora", "adapter.rank=4",
                  program.setting(KEY))
    assert printed(run) == {12: {"rank": 4}}


@pytest.mark.parametrize(("name", "text", "said"), [
    ("exits", 'sys.exit("no GPU is free")', "exit code 1: no GPU is free"),
    ("prose", 'print("accuracy: 0.5")', "no line of its output is a JSON object"),
    ("nan", 'print("{\\"nan\\": NaN}")', "no line of its output is a JSON object"),
    ("no-number", 'print(json.dumps({"name": "x", "ok": True}))', 'it printed no number: {"name":"x","ok":true}'),
    ("killed", "os.kill(os.getpid(), 9)", "signal 9"),
])
def test_a_failure_is_a_warning_with_its_reason(lab, name, text, said):
    program = Program(lab.folder, name, text)
    code, _, err = lab.finish(lab.start(name, *SETTINGS, "checkpoint.save_steps=0", program.setting(KEY)))
    assert code == 0, err
    assert f"run.evaluate_command of step 12 gave no metric: {said}" in err, err
    assert printed(lab.folder / "runs" / name) == {}


def test_values_that_are_no_numbers_are_named_and_left_out(lab):
    program = Program(lab.folder, "mixed", 'print(json.dumps({"f1": 0.5, "task": "x", "all": {"a": 1}}))')
    code, _, err = lab.finish(lab.start("mixed", *SETTINGS, "checkpoint.save_steps=0", program.setting(KEY)))
    assert code == 0 and "values that are no numbers are left out: task, all" in err, err
    assert printed(lab.folder / "runs" / "mixed") == {12: {"f1": 0.5}}


def test_one_command_runs_at_a_time_and_the_last_checkpoint_is_measured(lab):
    program = Program(lab.folder, "busy", """
note(step=step, begin=time.time())
time.sleep(2)
note(step=step, end=time.time())
print(json.dumps({"n": step}))
""")
    run = lab.run("busy", *SETTINGS, "checkpoint.save_steps=1", program.setting(KEY))
    times = [note.get("begin") or note["end"] for note in program.notes()]
    assert times == sorted(times)
    assert [("begin" in note) for note in program.notes()] == [True, False] * (len(times) // 2)
    assert max(printed(run)) == 12 and len(printed(run)) < 12


def test_a_stopped_run_ends_it_and_the_next_start_repeats_it(lab):
    program = Program(lab.folder, "ended", """
note(step=step, pid=os.getpid())
if len(steps_noted()) < 2:
    time.sleep(1000)
print(json.dumps({"n": step}))
""")
    settings = [*SETTINGS, "checkpoint.save_steps=2", program.setting(KEY)]
    process = lab.start("ended", *settings, *slow_from(3, 9))
    wait_for(lambda: program.notes(), process)
    process.send_signal(signal.SIGTERM)
    code, _, err = lab.finish(process)
    assert code == 75 and "run.evaluate_command of step 2 is ended with the run" in err, err
    wait_for_end(program.notes()[0]["pid"])
    assert not (lab.folder / "runs" / "ended" / "evaluate_command").exists()
    run = lab.run("ended", *settings)
    assert max(printed(run)) == 12


def test_a_second_signal_ends_the_command_with_the_run(lab):
    program = Program(lab.folder, "twice", """
note(step=step, pid=os.getpid())
time.sleep(1000)
""")
    process = lab.start("twice", *SETTINGS, "checkpoint.save_steps=2", *slow_from(4, 8, 20), program.setting(KEY))
    wait_for(lambda: program.notes(), process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    code, _, err = lab.finish(process)
    assert code == -signal.SIGINT
    kept = "checkpoints/step-2 is kept, and the same command continues from there; later steps are lost"
    assert "stopping: this step is finished and saved first" in err and err.count(kept) == 2, err
    wait_for_end(program.notes()[0]["pid"])

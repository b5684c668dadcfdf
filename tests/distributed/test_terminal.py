"""Tests the progress output: one line that is redrawn on a terminal, plain lines elsewhere."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios

import pytest
from runs import PROGRAM, REPO, slow_from

SETTINGS = ["run.max_steps=12", "data.validation=", "checkpoint.save_steps=6"]
CLEAR = "\r\x1b[K"


def on_a_terminal(words, columns, **environment):
    """All that a program writes to a terminal, and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs,
                               env={**os.environ, "TERM": "xterm", "OMP_NUM_THREADS": "1", **environment})
    os.close(theirs)
    written = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the last writer is gone
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    return written.decode(), process.wait()


def screen(written):
    """The lines that stay, and the drawings of the line that is redrawn."""
    drawings = [piece for piece in re.split(r"\r\n|(?=\r\x1b\[K)", written)
                if piece.startswith((CLEAR + "step", CLEAR + "["))]
    lasting = [line.rsplit(CLEAR, 1)[-1] for line in written.split("\r\n")]
    return lasting, [re.sub(r"\x1b\[[0-9;]*[mK]|\r", "", drawing) for drawing in drawings]


@pytest.mark.parametrize("columns", [30, 60, 100, 200])
def test_a_terminal_has_one_line_that_is_redrawn(lab, columns):
    written, code = on_a_terminal([PROGRAM, "train", str(lab.config(f"terminal-{columns}")), *SETTINGS], columns)
    assert code == 0, written
    lasting, drawings = screen(written)
    assert len(drawings) >= 2
    in_place = [drawing for drawing in drawings if drawing not in lasting]
    assert all(len(drawing) < columns for drawing in in_place), in_place
    assert all(re.search(r"step \d+/12", drawing) for drawing in drawings)
    if columns >= 60:
        assert any(" left" in drawing for drawing in in_place)
    if columns >= 100:
        assert in_place[0].startswith("[#")
    # What is logged meanwhile stands on lines of its own, and so does the last step.
    assert any(re.search(r"^\S+ \S+ rank 0/1 .*: saved .*step-6$", re.sub(r"\x1b\[[0-9;]*m", "", line))
               for line in lasting), lasting
    assert any(line.startswith("step 12/12 (100.0 %)") for line in lasting), lasting


def test_under_mpirun_the_launcher_reports_the_width(lab):
    words = [str(REPO / "launch" / "packtrain-run"), "-n", "2", "--program", PROGRAM, str(lab.config("told"))]
    written, code = on_a_terminal([*words, *SETTINGS], 70)
    assert code == 0, written
    lasting, drawings = screen(written)
    in_place = [drawing for drawing in drawings if drawing not in lasting]
    assert in_place and all(len(drawing) < 70 for drawing in in_place), drawings


def test_a_terminal_shows_what_people_look_at(lab):
    settings = ["run.max_steps=12", "run.evaluate_steps=4"]
    written, code = on_a_terminal([PROGRAM, "train", str(lab.config("shown")), *settings], 250)
    assert code == 0, written
    _, drawings = screen(written)
    pattern = r"^\[#+\.*\] step \d+/12 \(\d+\.\d %\)  loss \S+  validation \S+  norm .*  \S+ tok/s  .*mem \S+ GiB  .* left"
    assert any(re.search(pattern, drawing) for drawing in drawings), drawings


def on_ctrl_c(lab, name, num_times, *settings):
    """All that a run writes to a terminal, when Ctrl-C is typed there after its first save."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([PROGRAM, "train", str(lab.config(name)), "data.validation=", *settings], stdin=theirs,
                               stdout=theirs, stderr=theirs, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                               env={**os.environ, "TERM": "xterm", "OMP_NUM_THREADS": "1"})
    os.close(theirs)
    written = ""
    while True:
        try:
            written += os.read(ours, 65536).decode()
        except OSError:
            break
        wanted = "step-2" if num_times == 2 else "stopping:" if num_times == 1 else None
        if wanted and wanted in written:
            os.write(ours, b"\x03")
            num_times -= 1
    os.close(ours)
    return written, process.wait()


def test_ctrl_c_says_what_is_kept(lab):
    settings = ["checkpoint.save_steps=2", *slow_from(4, 9, 5)]
    written, code = on_ctrl_c(lab, "interrupted", 2, *settings)
    assert code == -signal.SIGINT, written
    folder = lab.folder / "runs" / "interrupted" / "checkpoints"
    kept = f"{folder}/step-2 is kept, and the same command continues from there; later steps are lost"
    assert "stopping: this step is finished and saved first" in written and written.count(kept) == 2, written
    assert sorted(path.name for path in folder.iterdir()) == ["step-2"]


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}])
def test_a_dumb_terminal_has_plain_lines(lab, environment):
    written, code = on_a_terminal([PROGRAM, "train", str(lab.config("dumb")), *SETTINGS], 100, **environment)
    assert code == 0, written
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;]*m", "", written)
    assert "step 12/12 (100.0 %)" in written


def test_a_log_has_plain_lines(lab):
    code, _, err = lab.finish(lab.start("plain", *SETTINGS))
    assert code == 0, err
    assert "\x1b" not in err and "\r" not in err
    assert re.search(r"^step 1/12 \(8\.3 %\)  loss ", err, re.MULTILINE)
    assert re.search(r"^step 12/12 \(100\.0 %\)  loss ", err, re.MULTILINE)

"""Programs that runs start on their checkpoints, for tests of run.evaluate_command and checkpoint.after_save."""

import json
import pathlib
import sys
import time

# What every program below begins with: note(VALUES) appends a line to NOTES.
BEGIN = """
import json, os, pathlib, sys, time
def note(**values):
    with open({notes!r}, "a") as stream:
        stream.write(json.dumps(values) + "\\n")
folder = pathlib.Path(sys.argv[-1])
step = int(os.environ["PACKTRAIN_STEP"])
def steps_noted():
    lines = pathlib.Path({notes!r}).read_text().splitlines() if os.path.exists({notes!r}) else []
    return [json.loads(line)["step"] for line in lines]
"""


class Program:
    """A Python program in a file, and what it noted."""

    def __init__(self, folder, name, text):
        self.path = folder / f"{name}.py"
        self.notes_path = folder / f"{name}.jsonl"
        self.path.write_text(BEGIN.format(notes=str(self.notes_path)) + text)

    def setting(self, key, *arguments):
        return f"{key}={json.dumps([sys.executable, str(self.path), *arguments])}"

    def notes(self):
        if not self.notes_path.exists():
            return []
        return [json.loads(line) for line in self.notes_path.read_text().splitlines()]


def wait_for_end(process):
    """Of a killed process that is no child of this one."""
    deadline = time.monotonic() + 60
    while True:
        try:
            if ") Z " in pathlib.Path(f"/proc/{process}/stat").read_text():
                return
        except OSError:
            return
        assert time.monotonic() < deadline, f"process {process} lives"
        time.sleep(0.01)


def ends_of_commands(run):
    """Returns (command, step, succeeded) of each start that ended."""
    lines = [json.loads(line) for line in (run / "commands.jsonl").read_text().splitlines()]
    return [(line["command"], line["step"], line["succeeded"]) for line in lines]

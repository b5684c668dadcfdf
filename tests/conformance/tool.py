"""Our side: conformance_tool, started once for all cases."""

import dataclasses
import os
import subprocess

PROGRAM = os.environ.get("PACKTRAIN_CONFORMANCE_TOOL", "build/tests/conformance_tool")


@dataclasses.dataclass
class Answer:
    code: int
    message: str = ""


class Tool:
    """`words`: what it is started with."""

    def __init__(self, *words):
        self.command = [PROGRAM, *words]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, question):
        """A folder, or `config FILE`."""
        if self.process is None or self.process.poll() is not None:
            self.start()
        self.process.stdin.write(f"{question}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().strip()
        if line == "ok" or line.startswith("ok "):
            return Answer(0, line[3:])
        if not line:
            return Answer(self.process.wait(), "the program died")
        _, code, message = line.split(" ", 2)
        return Answer(int(code), message)

    def close(self):
        if self.process is not None:
            self.process.communicate()

"""Starts packtrain itself for the tools that are made of its commands."""

import os
import subprocess
import sys

from packtrain_tools.errors import CONFIG, ToolError


def find_program(given: str | None) -> str:
    """`given`: the value of --program, which packtrain passes to its tools."""
    if given:
        return given
    raise ToolError("this tool is started by packtrain", "Start it as a subcommand of packtrain.", CONFIG)


def run_program(program: str, words: list[str], quiet: bool = False):
    """Runs a subcommand, whose output goes to standard error. Its failure is a ToolError with its exit code.
    `quiet`: the output is shown only where it fails."""
    environment = {**os.environ, "PACKTRAIN_PYTHON": os.environ.get("PACKTRAIN_PYTHON") or sys.executable}
    done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if quiet else sys.stderr,
                          stderr=subprocess.PIPE if quiet else None, text=True, errors="replace", check=False,
                          env=environment)
    if done.returncode == 0:
        return
    if done.returncode < 0:
        raise ToolError(f"packtrain {words[0]} was ended by signal {-done.returncode}", exit_code=128 - done.returncode)
    reason = f": {done.stderr.strip()}" if quiet and done.stderr else ""
    raise ToolError(f"packtrain {words[0]} ended with {done.returncode}{reason}", exit_code=done.returncode)

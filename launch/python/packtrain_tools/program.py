"""Starts packtrain itself for the tools that are made of its commands."""

import ctypes
import os
import signal
import subprocess
import sys

from packtrain_tools.errors import CONFIG, STOPPED, ToolError


PR_SET_PDEATHSIG = 1  # prctl(2)
# launch/ of a checkout, a bundle, or the installed package
HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
LAUNCHER = os.path.join(HOME, "packtrain-run")


def end_with_parent(number: int):
    """This process gets the signal when the one that started it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def find_program(given: str | None) -> str:
    """`given`: the value of --program, which packtrain passes to its tools."""
    if given:
        return given
    raise ToolError("this tool is started by packtrain", "Start it as a subcommand of packtrain.", CONFIG)


def _environment() -> dict[str, str]:
    return {**os.environ, "PACKTRAIN_PYTHON": os.environ.get("PACKTRAIN_PYTHON") or sys.executable}


def _check(name: str, exit_code: int, reason: str = ""):
    if exit_code == STOPPED:
        raise ToolError("stopped and saved", "The same command continues.", STOPPED)
    if exit_code < 0:
        raise ToolError(f"packtrain {name} was ended by signal {-exit_code}", exit_code=128 - exit_code)
    if exit_code:
        raise ToolError(f"packtrain {name} ended with {exit_code}{reason}", exit_code=exit_code)


def run_program(program: str, words: list[str], quiet: bool = False):
    """Runs a subcommand, whose output goes to standard error. Its failure is a ToolError with its exit code.
    `quiet`: the output is shown only where it fails."""
    if quiet:
        run_quietly([program, *words], words[0])
    else:
        run_stoppable([program, *words], words[0])


def run_quietly(command: list[str], name: str) -> str:
    """Returns standard output. A failure is a ToolError with the text of standard error."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          check=False, env=_environment())
    _check(name, done.returncode, f": {done.stderr.strip()}" if done.stderr else "")
    return done.stdout


def run_stoppable(command: list[str], name: str):
    """Passes a request to stop on to the command, and waits until it has saved. It has a session of its own, so that
    Ctrl-C of a terminal reaches it once."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), start_new_session=True,
                          env=_environment()) as child:
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, lambda number, _: child.send_signal(number)) for number in signals}
        try:
            child.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    _check(name, child.returncode)

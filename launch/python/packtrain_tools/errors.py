"""Errors that a user can correct, with the exit codes of framework/core/error.h."""

import argparse
import difflib
import errno
import os
import signal
import sys

CONFIG = 64
DATA = 65
MISSING = 69
STOPPED = 75
_FULL = (errno.ENOSPC, errno.EDQUOT)


class ToolError(Exception):
    """A message with the place, the found and the expected value, and advice."""

    def __init__(self, message: str, advice: str = "", exit_code: int = DATA):
        super().__init__(message, advice, exit_code)  # all of them, so that workers can pickle it
        self.message = message
        self.advice = advice
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message}\n  {self.advice}" if self.advice else self.message


class Parser(argparse.ArgumentParser):
    """An argument parser whose usage errors exit with CONFIG, as in the rest of packtrain, and suggest the
    nearest option."""

    def parse_known_args(self, args=None, namespace=None):
        self._words = sys.argv[1:] if args is None else list(args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str):
        misspelt = self._first_unknown(message)
        if misspelt:
            near = difflib.get_close_matches(misspelt, self._option_string_actions, 1)
            message = f"unknown option {misspelt}" + (f", did you mean {near[0]}?" if near else "")
        if self.usage:  # the short usage of the tool
            self.print_usage(sys.stderr)
        self.exit(CONFIG, f"{self.prog}: {message}\n  `{self.prog} --help` shows what it takes.\n")

    def own_options(self) -> set[str]:
        return set(self._option_string_actions)

    def _first_unknown(self, message: str) -> str | None:
        """Finds an unknown option first, because a misspelt option may appear as missing ones."""
        if not message.startswith(("unrecognized arguments: -", "the following arguments are required")):
            return None
        for word in self._words:
            name = word.partition("=")[0]
            if name == "--":
                return None
            if name.startswith("--") and not self._knows(name):
                return name
        return None

    def _knows(self, name: str) -> bool:
        known = self._option_string_actions
        return name in known or (self.allow_abbrev and any(each.startswith(name) for each in known))


def run_main(program: str, main) -> int:
    """Calls main(), whose exit code may be None. Converts its errors to one message on stderr and an exit
    code."""
    try:
        exit_code = main()
        sys.stdout.flush()
        return exit_code or 0
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 128 + signal.SIGPIPE
    except ToolError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        advice = "\n  Free space there, then give the same command again." if error.errno in _FULL else ""
        print(f"{program}: {place}{error.strerror or error}{advice}", file=sys.stderr)
        return DATA
    except KeyboardInterrupt:
        return 130

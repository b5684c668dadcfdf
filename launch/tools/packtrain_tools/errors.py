"""Errors a user can do something about, with the exit codes of framework/support/error.h."""

import argparse
import sys

CONFIG = 64
DATA = 65
STOPPED = 75


class ToolError(Exception):
    """What happened, where, what was got and what was wanted; and what to do about it."""

    def __init__(self, message: str, advice: str = "", exit_code: int = DATA):
        super().__init__(message, advice, exit_code)  # all of them, so that workers can pickle it
        self.message = message
        self.advice = advice
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message}\n  {self.advice}" if self.advice else self.message


class Parser(argparse.ArgumentParser):
    """An argument parser whose usage errors exit with CONFIG, as the rest of packtrain does."""

    def error(self, message: str):
        self.print_usage(sys.stderr)
        self.exit(CONFIG, f"{self.prog}: {message}\n")


def run_main(program: str, main) -> int:
    """Calls main(), whose exit code may be None, and turns its errors into one message on stderr
    and an exit code."""
    try:
        exit_code = main()
        sys.stdout.flush()
        return exit_code or 0
    except ToolError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"{program}: {place}{error.strerror or error}", file=sys.stderr)
        return DATA
    except KeyboardInterrupt:
        return 130

"""Finds the Python environment of launch/setup for scripts that users start directly."""

import importlib.util
import os
import subprocess
import sys

from packtrain_tools.errors import MISSING

LAUNCH = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRIED = "PACKTRAIN_ENVIRONMENT_TRIED"


def use_environment(program: str, module: str):
    """Returns when `module` can be imported. Otherwise restarts this script in the Python of
    PACKTRAIN_PYTHON or of launch/setup."""
    if importlib.util.find_spec(module) is not None:
        return
    python = os.environ.get("PACKTRAIN_PYTHON") or _environments_python()
    if TRIED in os.environ or not os.path.exists(python):
        print(f"{program}: there is no Python package {module}\n"
              "  Run launch/setup, or set PACKTRAIN_PYTHON to a Python that has it.", file=sys.stderr)
        sys.exit(MISSING)
    os.environ[TRIED] = "1"
    os.execv(python, [python, *sys.argv])


def _environments_python() -> str:
    try:
        found = subprocess.run([os.path.join(LAUNCH, "setup"), "--print-env"], capture_output=True,
                               text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return os.path.join(found.stdout.strip(), "bin", "python")

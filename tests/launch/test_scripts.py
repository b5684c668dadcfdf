"""The scripts that build and test: each says what it does."""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = [path for folder in ("launch", "tests", "benchmarks") for path in sorted((ROOT / folder).rglob("*"))
           if path.is_file() and path.stat().st_mode & 0o100 and b"/common.sh" in path.read_bytes()]


def test_they_are_found():
    assert {ROOT / "launch/build", ROOT / "tests/run", ROOT / "benchmarks/planner/run"} <= set(SCRIPTS)


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_help_says_how_a_script_is_started_and_does_nothing_else(script, option, tmp_path):
    done = subprocess.run([script, option], capture_output=True, text=True, timeout=20, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{script.parent.name}/{script.name}" in done.stdout
    assert not any(tmp_path.iterdir())

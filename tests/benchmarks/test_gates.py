"""The gates of benchmarks let through what they should, and nothing else."""

import json
import subprocess
from pathlib import Path

import pytest

from folders import ROOT, load_script

BENCHMARKS = Path(ROOT) / "benchmarks"

# Stands in for operator_benchmark.
OPERATORS = """#!/bin/sh
echo '{{"device": "a GPU", "copy_tb_per_s": 3.0}}'
echo '{{"operator": "norm", "shape": "8 x 8", "us": 1.0, "spread": 0.01, "of_copy": {norm}}}'
echo '{{"operator": "linear", "shape": "8 x 8", "us": 1.0, "spread": 0.0, "of_yardstick": {linear}}}'
exit {status}
"""


@pytest.fixture(scope="module")
def instructions():
    return load_script("../instructions/gate")


@pytest.mark.parametrize("now, num_faults", [(900, 0), (1000, 0), (1029, 0), (1031, 1)])
def test_more_instructions_than_the_limit_are_a_fault(instructions, now, num_faults):
    assert len(instructions.compare({"plan": now}, {"plan": 1000}, 0.03)) == num_faults


def test_a_case_without_a_record_and_a_record_without_a_case_are_faults(instructions):
    assert instructions.compare({"new": 1}, {"gone": 1}, 0.03) == [
        "gone: is recorded, but is no case", "new: is not recorded"]


def test_another_compiler_is_compared_with_the_newest_and_a_wider_limit(instructions):
    recorded = {"GNU 9": {}, "GNU 12": {}}
    assert instructions.recorded_for("GNU 12", recorded) == ("GNU 12", instructions.LIMIT)
    assert instructions.recorded_for("GNU 15", recorded) == ("GNU 12", instructions.LIMIT_OF_OTHER_COMPILER)


def test_each_case_that_is_recorded_is_one_of_the_program():
    source = (BENCHMARKS / "instructions" / "main.cpp").read_text()
    for counts in json.loads((BENCHMARKS / "instructions" / "counts.json").read_text()).values():
        assert all(f'"{case}"' in source for case in counts)


def compare_operators(tmp_path, before: dict, after: dict) -> subprocess.CompletedProcess:
    for name, values in (("before", before), ("after", after)):
        program = tmp_path / name
        program.write_text(OPERATORS.format(**{"norm": 0.9, "linear": 0.8, "status": 0} | values))
        program.chmod(0o755)
    return subprocess.run([BENCHMARKS / "ops" / "gate", tmp_path / "before", tmp_path / "after"],
                          capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("after, slower", [
    ({}, []), ({"norm": 0.95}, []), ({"norm": 0.87}, []), ({"norm": 0.84}, ["norm"]), ({"linear": 0.7}, ["linear"]),
    ({"norm": 0.5, "linear": 0.5}, ["norm", "linear"])])
def test_an_operator_that_is_slower_beyond_limit_and_spread_fails(tmp_path, after, slower):
    done = compare_operators(tmp_path, {}, after)
    assert done.returncode == (1 if slower else 0), done.stderr
    assert [name for name in ("norm", "linear") if f"{name}, 8 x 8" in done.stderr] == slower


def test_a_program_that_fails_is_no_result(tmp_path):
    assert compare_operators(tmp_path, {"status": 3}, {}).returncode == 69

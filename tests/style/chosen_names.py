#!/usr/bin/env python3
"""Finds names of one alternative outside the folder that implements it. Other code asks for what it needs to know.

    chosen_names.py [ROOT]    prints every one; exit code 1 when there is one
"""

import pathlib
import re

from run_check import run_check

FOLDERS = ("framework", "samplers", "collators", "models", "parallel", "training", "launch")
SUFFIXES = (".cpp", ".h", ".cu", ".cuh")
# A pattern, where it may be, and what other code does.
NAMES = (
    (re.compile(r"\bStrategy::k\w+"), ("samplers/", "framework/config/strategy.h"),
     "ask a trait of the strategy (framework/config/strategy.h)"),
    (re.compile(r"\bexp_avg|\bkExpAvg"), ("training/optimizers/",),
     "iterate over the state that the optimizer declares (parallel/sharding/optimizer_state.h)"),
    # Start, devices, log files and metrics concern the processes of the launch.
    (re.compile(r"\bworld_?\.size\(\)"), (
        "parallel/communicators/", "parallel/sharding/shard_groups.cpp", "training/setup/rank_settings.cpp",
        "training/setup/gpu_assignment.cpp", "training/setup/run_device.cpp", "training/guards/watchdog.cpp",
        "training/comparison/", "training/loop/", "launch/"),
     "name the axis of the mesh (parallel/communicators/process_mesh.h)"),
)


def find_faults(root: pathlib.Path) -> list[str]:
    faults = []
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            name = file.relative_to(root).as_posix()
            if file.suffix not in SUFFIXES:
                continue
            for number, line in enumerate(file.read_text().splitlines(), start=1):
                code = line.split("//")[0]
                faults += [f"{name}:{number}: {advice}: {line.strip()}" for pattern, allowed, advice in NAMES
                           if pattern.search(code) and not name.startswith(allowed)]
    return faults


if __name__ == "__main__":
    run_check(find_faults)

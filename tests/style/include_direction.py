#!/usr/bin/env python3
"""Finds includes that run against the order of the folders (cmake/include_order.txt).

    include_direction.py [ROOT]    prints every fault; exit code 1 when there is one
"""

import pathlib
import re

from includes import Include, IncludeGraph
from run_check import run_check

ORDER_FILE = pathlib.Path(__file__).resolve().parents[2] / "cmake" / "include_order.txt"


def read_order(text: str) -> tuple[dict[str, int], dict[str, tuple[str, ...]]]:
    """The level of each folder, and the folders that a restricted folder may include."""
    levels, only = {}, {}
    for level, line in enumerate(line for line in text.splitlines() if line and not line.startswith("#")):
        folders, _, allowed = line.partition(" only ")
        levels |= dict.fromkeys(folders.split(), level)
        if allowed:
            only |= {folder: (folder, *allowed.split()) for folder in folders.split()}
    return levels, only


LEVELS, ONLY = read_order(ORDER_FILE.read_text())
# Headers of others, and the only folders that may see them, be it through a header of ours.
CONFINED = (
    (re.compile(r"nccl\w*\.h"), ("parallel/communicators/nccl/",)),
    (re.compile(r"mpi\w*\.h"), ("parallel/communicators/mpi/",)),
    (re.compile(r"(cuda|cublas|cudnn|cupti|curand|cusparse|cusolver|nvToolsExt|nvtx3/|cub/|thrust/|"
                r"cooperative_groups|(c10|ATen)/(cuda|cudnn)/)"),
     ("models/ops/", "training/optimizers/", "framework/device/cuda/", "parallel/communicators/nccl/")),
)
BANNED = {
    "torch/torch.h": "costs 25 s a file", "ATen/ATen.h": "include ATen/core/Tensor.h",
    "ATen/Functions.h": "include ATen/ops/<op>.h",
    "fstream": "hides errors: framework/core/file.h", "iostream": "fmt and logging",
}
TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")


def folder_of(path: str) -> str | None:
    folders = [folder for folder in LEVELS if path.startswith(folder + "/")]
    return max(folders, key=len, default=None)


def check_direction(graph: IncludeGraph, file: str, include: Include) -> str | None:
    if include.path not in graph.includes:
        return f'"{include.path}" is no file of this repository (wanted its path from the root)'
    mine, theirs = folder_of(file), folder_of(include.path)
    if theirs == mine or LEVELS[mine] >= LEVELS["tests"]:
        return None
    if LEVELS[theirs] >= LEVELS[mine]:
        return f"{mine} must not include {theirs} ({include.path})"
    if mine in ONLY and theirs not in ONLY[mine] and not include.path.startswith(tuple(f"{a}/" for a in ONLY[mine])):
        return f"{mine} must not include {include.path}"
    return None


def check_external(graph: IncludeGraph, file: str) -> list[str]:
    faults = []
    for header in sorted(graph.external(file)):
        if file.endswith(".cu") and TORCH.match(header):
            faults.append(f"a .cu file must not see libtorch ({header})")
        for pattern, folders in CONFINED:
            if pattern.match(header) and not file.startswith(folders + ("tests/", "benchmarks/")):
                faults.append(f"must not see {header}: only {', '.join(folders)} may")
    return faults


def find_faults(root: pathlib.Path) -> list[str]:
    graph = IncludeGraph(root)
    faults = []
    for file, includes in graph.includes.items():
        for include in includes:
            if include.is_ours:
                fault = check_direction(graph, file, include)
            else:
                fault = BANNED.get(include.path) and f"<{include.path}>: {BANNED[include.path]}"
            if fault:
                faults.append(f"{file}:{include.line}: {fault}")
        faults += [f"{file}: {fault}" for fault in check_external(graph, file)]
    return faults


if __name__ == "__main__":
    run_check(find_faults)

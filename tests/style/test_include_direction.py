"""The folders' includes run one way; and the check that says so can fail."""

import itertools
import pathlib
import re

import pytest

from include_direction import LEVELS, find_faults

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def plant(root: pathlib.Path, files: dict[str, str]):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def test_this_repository_has_no_fault():
    assert find_faults(ROOT) == []


def test_includes_downwards_are_no_fault(tmp_path):
    plant(tmp_path, {
        "framework/core/error.h": "#pragma once\n#include <string>\n",
        "models/block/block.h": '#pragma once\n#include "framework/core/error.h"\n',
        "parallel/sharding/driver.cpp": '#include "models/block/block.h"\n',
        "parallel/communicators/mpi/world.cpp": "#include <mpi.h>\n",
        "training/optimizers/adamw.cu": "#include <cuda_runtime.h>\n",
        "tests/models/block_test.cpp": '#include "models/block/block.h"\n',
    })
    assert find_faults(tmp_path) == []


def drawn_order() -> list[list[set[str]]]:
    """The lines of the tree in the root README that name folders of cmake/include_order.txt: groups of folders."""
    tree = (ROOT / "README.md").read_text().split("## The tree")[1].split("```")[1]
    lines = []
    for top, text in re.findall(r"^(\w+)/ +(.*)$", tree, re.MULTILINE):
        if top in LEVELS:
            lines.append([{top}])
        elif any(folder.startswith(top + "/") for folder in LEVELS):
            groups = text.partition(":")[0].split("<")
            lines.append([{f"{top}/{name.strip()}" for name in group.split(",")} for group in groups])
    return lines


def test_the_root_readme_draws_the_order_of_includes():
    lines = drawn_order()
    assert set().union(*(group for line in lines for group in line)) == set(LEVELS) - {"benchmarks"}
    for line in lines:
        levels = [{LEVELS[folder] for folder in group} for group in line]
        assert all(max(low) < min(high) for low, high in itertools.pairwise(levels))
    firsts = [min(LEVELS[folder] for folder in line[0]) for line in lines]
    assert firsts == sorted(firsts)


@pytest.mark.parametrize("file, text, named", [
    ("framework/data/a.cpp", '#include "training/loop/b.h"', "training/loop"),
    ("framework/config/a.h", '#include "framework/metrics/b.h"', "framework/metrics"),
    ("samplers/a.cpp", '#include "models/decoder/decoder.h"', "models"),
    ("parallel/sharding/a.cpp", '#include "models/decoder/decoder.h"', "models/decoder/decoder.h"),
    ("parallel/communicators/local/a.cpp", '#include "framework/config/b.h"', "framework/config/b.h"),
    ("models/ops/a.cpp", '#include "models/layers/b.h"', "models/layers"),
    ("models/decoder/a.cpp", '#include "parallel/sharding/b.h"', "parallel/sharding"),
    ("models/layers/a.cpp", '#include "launch/b.h"', "launch"),
    ("models/layers/a.cpp", '  #  include "b.h"', "no file of this repository"),
    ("training/loop/a.cpp", "#include <mpi.h>", "mpi.h"),
    ("parallel/communicators/mpi/a.cpp", "#include <nccl.h>", "nccl.h"),
    ("models/decoder/decoder.cpp", "#include <cuda_runtime.h>", "cuda_runtime.h"),
    ("training/loop/a.cpp", "#include <c10/cuda/CUDAStream.h>", "c10/cuda"),
    ("models/decoder/decoder.cpp", '#include "models/ops/b.h"', "cuda_runtime.h"),
    ("models/ops/a.cu", "#include <ATen/core/Tensor.h>", "libtorch"),
    ("models/layers/a.cpp", "#include <torch/torch.h>", "torch/torch.h"),
    ("framework/data/a.cpp", "#include <fstream>", "fstream"),
])
def test_a_planted_fault_is_found(tmp_path, file, text, named):
    plant(tmp_path, {
        "training/loop/b.h": "", "framework/metrics/b.h": "", "framework/config/b.h": "",
        "models/decoder/decoder.h": "", "parallel/sharding/b.h": "", "models/layers/b.h": "", "launch/b.h": "",
        "models/ops/b.h": "#include <cuda_runtime.h>\n",
        file: text + "\n",
    })
    faults = find_faults(tmp_path)
    assert len(faults) == 1
    assert faults[0].startswith(f"{file}:")
    assert named in faults[0]

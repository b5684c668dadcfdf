"""The folders' includes run one way; and the check that says so can fail."""

import pathlib

import pytest

from include_direction import find_faults

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def plant(root: pathlib.Path, files: dict[str, str]):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def test_this_repository_has_no_fault():
    assert find_faults(ROOT) == []


def test_includes_downwards_are_no_fault(tmp_path):
    plant(tmp_path, {
        "framework/support/error.h": "#pragma once\n#include <string>\n",
        "models/block.h": '#pragma once\n#include "framework/support/error.h"\n',
        "parallel/sharding/driver.cpp": '#include "models/block.h"\n',
        "parallel/mpi/world.cpp": "#include <mpi.h>\n",
        "models/ops/adamw/adamw.cu": "#include <cuda_runtime.h>\n",
        "tests/models/block_test.cpp": '#include "models/block.h"\n',
    })
    assert find_faults(tmp_path) == []


@pytest.mark.parametrize("file, text, named", [
    ("framework/data/a.cpp", '#include "framework/training/b.h"', "framework/training"),
    ("framework/config/a.h", '#include "framework/metrics/b.h"', "framework/metrics"),
    ("samplers/a.cpp", '#include "models/decoder.h"', "models"),
    ("parallel/sharding/a.cpp", '#include "models/decoder.h"', "models/decoder.h"),
    ("parallel/local/a.cpp", '#include "framework/config/b.h"', "framework/config/b.h"),
    ("models/a.cpp", '#include "parallel/b.h"', "parallel"),
    ("models/a.cpp", '#include "launch/b.h"', "launch"),
    ("models/a.cpp", '  #  include "b.h"', "no file of this repository"),
    ("framework/training/a.cpp", "#include <mpi.h>", "mpi.h"),
    ("parallel/mpi/a.cpp", "#include <nccl.h>", "nccl.h"),
    ("models/decoder.cpp", "#include <cuda_runtime.h>", "cuda_runtime.h"),
    ("framework/training/a.cpp", "#include <c10/cuda/CUDAStream.h>", "c10/cuda"),
    ("models/decoder.cpp", '#include "models/ops/b.h"', "cuda_runtime.h"),
    ("models/ops/a.cu", "#include <ATen/core/Tensor.h>", "libtorch"),
    ("models/a.cpp", "#include <torch/torch.h>", "torch/torch.h"),
    ("framework/data/a.cpp", "#include <fstream>", "fstream"),
])
def test_a_planted_fault_is_found(tmp_path, file, text, named):
    plant(tmp_path, {
        "framework/training/b.h": "", "framework/metrics/b.h": "", "framework/config/b.h": "",
        "models/decoder.h": "", "parallel/b.h": "", "launch/b.h": "",
        "models/ops/b.h": "#include <cuda_runtime.h>\n",
        file: text + "\n",
    })
    faults = find_faults(tmp_path)
    assert len(faults) == 1
    assert faults[0].startswith(f"{file}:")
    assert named in faults[0]

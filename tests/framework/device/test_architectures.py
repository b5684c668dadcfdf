"""The program has machine code and PTX for each architecture that the build names."""

import os
import re
import shutil
import subprocess

import pytest

PROGRAM = os.environ["PACKTRAIN_PROGRAM"]
NAMED = os.environ["PACKTRAIN_CUDA_ARCHITECTURES"].split(",")  # CMake's names: 80, 86-real, 90a-real, 80-virtual
CUOBJDUMP = shutil.which("cuobjdump", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")


def listed(option: str) -> set[str]:
    lines = subprocess.run([CUOBJDUMP, option, PROGRAM], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"\bsm_(\d+[a-z]?)\.(?:cubin|ptx)", lines))


@pytest.mark.skipif(CUOBJDUMP is None, reason="there is no cuobjdump: it comes with the CUDA toolkit")
def test_the_program_has_code_for_the_architectures_of_the_build():
    machine_code = {name.removesuffix("-real") for name in NAMED if not name.endswith("-virtual")}
    ptx = {name.removesuffix("-virtual") for name in NAMED if not name.endswith("-real")}
    assert listed("--list-elf") == machine_code
    assert listed("--list-ptx") == ptx

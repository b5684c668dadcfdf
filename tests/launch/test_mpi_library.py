"""libmpi is opened at run time, by processes that an MPI launcher started and by no others."""

import os
import pathlib
import re
import subprocess

PROGRAM = os.environ["PACKTRAIN_PROGRAM"]
MISSING = "/nowhere/libmpi.so.40"


def run(tmp_path: pathlib.Path, library: str, **environment: str) -> subprocess.CompletedProcess:
    """`packtrain doctor` on a small model."""
    store = tmp_path / "store"
    subprocess.run([PROGRAM, "prepare", "--synthetic", "constant:32", "--examples", "8", "--vocab-size", "64",
                    "--out", store], check=True, capture_output=True)
    config = tmp_path / "config.yaml"
    config.write_text(f"""
model:
  config: {{model_type: llama, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2,
           num_key_value_heads: 2, vocab_size: 64, max_position_embeddings: 64, rms_norm_eps: 1.0e-6}}
data: {{train: {store}, max_length: 64}}
batch: {{global_batch_size: 4, max_tokens_per_micro_batch: 128}}
precision: {{compute: fp32, reduce: fp32}}
metrics: {{serve: false}}
run: {{output: {tmp_path / "run"}, max_steps: 2}}
""")
    return subprocess.run([PROGRAM, "train", config], capture_output=True, text=True, check=False, timeout=300,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "PACKTRAIN_MPI_LIBRARY": library, **environment})


def test_the_program_is_not_linked_with_libmpi():
    dynamic = subprocess.run(["objdump", "-p", PROGRAM], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"NEEDED +(\S+)", dynamic)
    assert "libtorch_cpu.so" in needed
    assert not [name for name in needed if re.match(r"lib(mpi|open-rte|open-pal)", name)]


def test_one_process_trains_without_libmpi(tmp_path):
    result = run(tmp_path, MISSING)
    assert result.returncode == 0, result.stderr


def test_a_missing_libmpi_ends_a_rank_of_mpirun_with_an_error(tmp_path):
    result = run(tmp_path, MISSING, OMPI_COMM_WORLD_SIZE="2")
    assert result.returncode == 69
    assert f"{MISSING} cannot be used: {MISSING}: cannot open shared object file" in result.stderr
    assert "set PACKTRAIN_MPI_LIBRARY to the libmpi.so.40 of the mpirun" in result.stderr


def test_a_library_that_is_not_open_mpi_is_refused(tmp_path):
    result = run(tmp_path, "libm.so.6", OMPI_COMM_WORLD_SIZE="2")
    assert result.returncode == 69
    assert "libm.so.6 cannot be used: it has no MPI_Abort" in result.stderr

"""The program as users start it."""

import os
import subprocess

PROGRAM = os.environ.get("PACKTRAIN_PROGRAM", "build/bin/packtrain")
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
          "--mca", "btl_vader_single_copy_mechanism", "none"]

CONFIG = """
model: {path: %(model)s}
data: {train: %(train)s, validation: %(validation)s, max_length: 200}
batch: {global_batch_size: 8, max_tokens_per_micro_batch: 256}
optimizer: {learning_rate: 1.0e-2}
schedule: {name: constant, warmup_steps: 0}
precision: {compute: fp32, reduce: fp32}
metrics: {serve: false}
checkpoint: {save_steps: 0}
run: {output: %(output)s, max_steps: 1}
"""


def packtrain(*words, ranks=1):
    """(exit code, standard output, standard error)"""
    command = [PROGRAM, *map(str, words)]
    if ranks > 1:
        command = [*MPIRUN, "-np", str(ranks), *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    return done.returncode, done.stdout, done.stderr


def finished(*words, ranks=1):
    """The same of a command that must succeed: its output."""
    code, out, err = packtrain(*words, ranks=ranks)
    assert code == 0, err
    return out


def make_store(folder, num_examples, seed, vocab_size):
    """Lengths from 1 to 160, most of them short."""
    finished("prepare", "--synthetic", "lognormal:2.2,1.2,2,160", "--examples", num_examples,
             "--seed", seed, "--vocab-size", vocab_size, "--out", folder)
    return folder


def write_config(path, **places):
    path.write_text(CONFIG % places)
    return path


def prepare_run(folder, vocab_size):
    """Writes a configuration for `folder`/model, with stores of `vocab_size` token ids. Its run is `folder`/run."""
    stores = {name: make_store(folder / name, 24, 1, vocab_size) for name in ("train", "validation")}
    return write_config(folder / "run.yaml", model=folder / "model", output=folder / "run", **stores)

"""Starts the real program on a tiny model and reads back what it wrote."""

import json
import os
import pathlib
import shutil
import subprocess

REPO = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PACKTRAIN_PROGRAM", str(REPO / "build" / "bin" / "packtrain"))
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
          "--mca", "btl_vader_single_copy_mechanism", "none"]

CONFIG = """
model:
  config: {model_type: llama, hidden_size: 64, intermediate_size: 160, num_hidden_layers: 4,
           num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 512, hidden_act: silu,
           max_position_embeddings: 512, rms_norm_eps: 1.0e-6, tie_word_embeddings: true}
data: {train: %(train)s, validation: %(validation)s, max_length: 512}
batch: {global_batch_size: 16, micro_batch_size: 2, max_tokens_per_micro_batch: 1024}
optimizer: {learning_rate: 3.0e-3}
precision: {compute: fp32, reduce: fp32}
metrics: {serve: false}
checkpoint: {save_steps: 0}
run: {output: %(output)s, max_steps: 20, seed: 5, num_epochs: 2}
"""


# Long enough for any run here on a machine that is busy with other things: what takes longer hangs.
PATIENCE_S = 300


def slow_from(step, num_steps, seconds=1.0):
    """Returns settings that make each of these steps take `seconds` longer, which changes no bit. The run is then not
    over before the test has acted on it."""
    return ["fault.kind=slow", f"fault.step={step}", f"fault.num_steps={num_steps}", f"fault.seconds={seconds}"]


class Lab:
    """A folder with small token stores; run() trains in a fresh run folder of it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.started = []
        self.train_store = self.make_store("train", 240, 11)
        self.validation_store = self.make_store("validation", 20, 12)

    def make_store(self, name, num_examples, seed, vocab_size=512, lengths="lognormal:3.7,0.9,4,400"):
        store = self.folder / name
        subprocess.run([PROGRAM, "prepare", "--synthetic", lengths, "--examples",
                        str(num_examples), "--seed", str(seed), "--vocab-size", str(vocab_size),
                        "--out", str(store)], check=True, capture_output=True, text=True)
        return store

    def config(self, name, **overrides):
        path = self.folder / f"{name}.yaml"
        paths = {"train": self.train_store, "validation": self.validation_store,
                 "output": self.folder / "runs" / name}
        path.write_text(CONFIG % {**paths, **overrides})
        return path

    def start(self, name, *overrides, ranks=1, command="train", config=None, rank_overrides=None,
              rank_environment=None):
        """{rank: overrides} and {rank: {variable: value}} that no other rank gets."""
        program = [PROGRAM, command, str(config or self.config(name)), *overrides]
        if rank_overrides or rank_environment:
            words = [*MPIRUN]
            for rank in range(ranks):
                variables = [f"{key}={value}" for key, value in (rank_environment or {}).get(rank, {}).items()]
                own = (rank_overrides or {}).get(rank, [])
                words += [":"] * (rank > 0) + ["-np", "1", "env", *variables, *program, *own]
        else:
            words = program if ranks == 1 else [*MPIRUN, "-np", str(ranks), *program]
        self.started.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                             env={**os.environ, "OMP_NUM_THREADS": "1"}))
        return self.started[-1]

    def close(self):
        """Ends the runs of failed tests that still run."""
        for process in self.started:
            if process.poll() is None:
                process.terminate()

    def finish(self, process, timeout=PATIENCE_S):
        """(exit code, stdout, stderr)"""
        out, err = process.communicate(timeout=timeout)
        return process.returncode, out, err

    def run(self, name, *overrides, ranks=1, rank_overrides=None, timeout=PATIENCE_S):
        """Trains to the end; the run's folder."""
        process = self.start(name, *overrides, ranks=ranks, rank_overrides=rank_overrides)
        code, _, err = self.finish(process, timeout)
        assert code == 0, err
        return self.folder / "runs" / name

    def evaluate(self, name, *overrides, ranks=1):
        code, out, err = self.finish(
            self.start(name, *overrides, "--json", ranks=ranks, command="evaluate"))
        assert code == 0, err
        return json.loads(out)


def take_checkpoint(source, step, target):
    """A new run folder that knows nothing but one checkpoint of another run."""
    (target / "checkpoints").mkdir(parents=True)
    shutil.copytree(source / "checkpoints" / f"step-{step}", target / "checkpoints" / f"step-{step}")


def steps(run_folder):
    """Returns the step lines of metrics.jsonl, by step. While the run writes, these are the complete lines."""
    whole, _, _ = (run_folder / "metrics.jsonl").read_text().rpartition("\n")
    lines = [json.loads(line) for line in whole.splitlines()]
    return {line["step"]: line for line in lines if "grad_norm" in line}


def losses(run_folder):
    return [line["loss"] for _, line in sorted(steps(run_folder).items())]


def weights(run_folder, kind="weight"):
    """All parameters of the newest checkpoint, assembled from its shards: {name: flat array}. bfloat16 as float32."""
    import numpy
    import torch
    from safetensors.torch import load_file

    folders = (run_folder / "checkpoints").glob("step-*")
    newest = max((f for f in folders if f.suffix == ""), key=lambda f: int(f.name.split("-")[1]))
    pieces = {}
    for shard in sorted(newest.glob("rank-*.safetensors")):
        for key, tensor in load_file(shard).items():
            found_kind, rest = key.split("/", 1)
            name, begin = rest.rsplit("@", 1)
            if found_kind == kind:
                known = tensor.float() if tensor.dtype == torch.bfloat16 else tensor  # numpy has no bfloat16
                pieces.setdefault(name, []).append((int(begin), known.numpy()))
    return {name: numpy.concatenate([t for _, t in sorted(parts, key=lambda p: p[0])])
            for name, parts in pieces.items()}


def assert_bit_equal(first, second):
    """Two runs had the same losses and gradient norms at every step, and end in the same weights."""
    for name in ("loss", "grad_norm"):
        assert [line[name] for line in steps(first).values()] == [line[name] for line in steps(second).values()]
    found, wanted = weights(first), weights(second)
    assert found.keys() == wanted.keys()
    assert all((found[name] == wanted[name]).all() for name in wanted)

"""benchmarks/peers: what batches hold and how work is counted; hf.py on the CPU, also sharded."""

import json
import os
import random
import subprocess
import sys
import types

import pytest
import torch
from triton.runtime import autotuner

from folders import ROOT

import batches
import hf_model
import figures
import kernel_tuning
import shapes

HF = os.path.join(ROOT, "benchmarks", "peers", "hf.py")


@pytest.mark.parametrize("documents, longest", [("short", 4096), ("full", 8192)])
def test_documents_fill_a_batch_exactly(documents, longest):
    lengths = shapes.draw_lengths(random.Random(0), 16384, documents)
    assert sum(lengths) == 16384
    assert min(lengths[:-1]) >= 8 and max(lengths) <= longest


def test_packed_documents_have_bounds_and_no_label_across_them():
    batch = batches.packed([3, 5], 50, "cpu")
    assert batch["cu_seq_lens_q"].tolist() == [0, 3, 8]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0, 1, 2, 3, 4]]
    assert (batch["labels"] == -100).nonzero()[:, 1].tolist() == [0, 3]
    assert batch["max_length_q"] == 5


def test_padded_documents_have_a_row_each():
    batch = batches.padded([3, 5], 50, "cpu")
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    assert torch.equal(batch["labels"] == -100, batch["attention_mask"] == 0)


def test_batches_of_one_graph_are_equal():
    made = batches.one_shape([[3, 5], [1, 1, 6]], 50, "cpu", False)
    assert [batch["cu_seq_lens_q"].tolist() for batch in made] == [[0, 3, 8, 8], [0, 1, 2, 8]]
    assert {batch["max_length_q"] for batch in made} == {6}


def test_a_steps_figures_are_its_own_tokens_over_its_own_time():
    row = figures.step_figures(shapes.SHAPES["tiny"], [100, 300, 200], [0, 0, 0], [1.0, 1.0, 4.0])
    assert (row["tok_s"], row["tok_s_mean"], row["tokens"]) == (100, 100, 200)


def write_plan(path, ranks, strategy="balanced"):
    path.write_text(json.dumps({"strategy": strategy, "num_ranks": len(ranks), "steps": [
        {"ranks": [[[[7, 0, length] for length in pieces] for pieces in rank] for rank in ranks]}
        for _ in range(4)]}))
    return str(path)


def test_a_plan_gives_each_ranks_micro_batches(tmp_path):
    path = write_plan(tmp_path / "plan.json", [[[5, 3], [2]], [[4], [6]]])
    strategy, steps = batches.read_plan(path)
    assert strategy == "balanced" and len(steps) == 4
    assert steps[0] == [[[5, 3], [2]], [[4], [6]]]


@pytest.mark.parametrize("ranks", [[[[5]], [[4], [6]]], [[[5]], [[]]]])
def test_a_plan_without_work_for_a_rank_is_refused(tmp_path, ranks):
    with pytest.raises(SystemExit, match="step 0"):
        batches.read_plan(write_plan(tmp_path / "plan.json", ranks))


def run_hf(arguments, num_ranks=1):
    launcher = [sys.executable]
    if num_ranks > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                     str(num_ranks)]
    done = subprocess.run([*launcher, HF, "--shape", "tiny", "--warm-up", "1", "--steps", "3",
                           *arguments], capture_output=True, text=True, check=True,
                          env=os.environ | {"OMP_NUM_THREADS": "1"})
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_hf_measures_several_numbers_of_tokens():
    rows = run_hf(["--tokens", "300,200"])
    assert [row["tokens"] for row in rows] == [300, 200]
    assert all(row["tok_s"] > 0 for row in rows)


CONFIG = """
model:
  config: {model_type: %s, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2,
           num_attention_heads: 2, num_key_value_heads: 1, vocab_size: 128, sliding_window: 4}
"""


def test_hf_takes_models_of_configurations_and_says_which_failed(tmp_path):
    plans = [write_plan(tmp_path / "plan.json", [[[5, 9]]])]
    jobs = []
    for family in ("mistral", "unheard_of", "qwen2"):
        path = tmp_path / f"{family}.yaml"
        path.write_text(CONFIG % family)
        jobs.append([str(path), plans])
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    rows = run_hf(["--jobs", str(tmp_path / "jobs.json")])
    assert [row["config"] for row in rows] == [config for config, _ in jobs]
    assert [row["tokens"] for row in rows[::2]] == [14, 14] and rows[0]["tflops"] is None
    assert "unheard_of" in rows[1]["error"]


def test_the_packed_attention_hides_what_the_window_hides():
    heads = [torch.randn(12, 2, 8, requires_grad=True) for _ in range(3)]
    bounds = torch.tensor([0, 3, 12])
    out = hf_model.by_document(*heads, bounds, 9, 0.3, 4)
    out[-1].sum().backward()
    reached = heads[1].grad.abs().sum(dim=(1, 2)).nonzero().flatten().tolist()
    assert reached == [8, 9, 10, 11]


def test_sharded_hf_trains_plans_and_both_ways_to_add_up_gradients_agree(tmp_path):
    plans = [write_plan(tmp_path / f"{strategy}.json", [[[5, 3], [2]], [[4], [6]]], strategy)
             for strategy in ("padding", "balanced")]
    rows = run_hf(["--plan", ",".join(plans)], num_ranks=2)
    found = {(row["strategy"], row["local_accumulation"]): row for row in rows}
    assert len(found) == 4
    assert {row["tokens"] for row in rows} == {10} and {row["gpus"] for row in rows} == {2}


def test_compiled_layers_take_the_kernels_of_packages(monkeypatch):
    package = types.ModuleType("package_of_kernels")
    package.scaled = lambda x: 3 * x
    monkeypatch.setitem(sys.modules, package.__name__, package)
    hf_model.keep_kernels_when_compiled()

    @hf_model.hub_kernels.use_kernel_func_from_hub_with_fallback("scaled", package.__name__)
    def scaled(x):
        return 2 * x

    x = torch.ones(2)
    assert torch.equal(torch.compile(scaled, backend="eager")(x), 3 * x)


class CountingKernel:
    def __init__(self):
        self.compiled = []

    def run(self, *arguments, **options):
        self.compiled.append((arguments, options))


def test_every_config_is_compiled_once_for_the_launch_that_is_tuned():
    kernel = CountingKernel()
    tuner = type("Tuner", (), {"nargs": {"x": 1, "y": 2}, "fn": kernel})()
    configs = [autotuner.Config({"BLOCK": block}, num_warps=4) for block in (16, 32)]
    kernel_tuning.compile_all(tuner, configs, {"grid": (1,), "warmup": False, "z": 3})
    assert [options["BLOCK"] for _, options in kernel.compiled] == [16, 32]
    for arguments, options in kernel.compiled:
        assert arguments == (1, 2) and options["z"] == 3 and options["warmup"] and options["grid"] == (1,)


def test_a_refused_kernel_is_known_as_refused_by_every_model_of_a_process(monkeypatch):
    kernels = types.ModuleType("fla.ops.common")
    kernels.chunk_o = types.SimpleNamespace(IS_NVIDIA_HOPPER=True, TRITON_ABOVE_3_4_0=True, TRITON_ABOVE_3_7_1=False)
    monkeypatch.setattr(kernel_tuning.importlib.util, "find_spec", lambda name: name)
    for name in ("fla", "fla.ops"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, kernels.__name__, kernels)
    kernel_tuning.time_refused_kernels.cache_clear()
    assert [kernel_tuning.time_refused_kernels() for _ in range(2)] == [True, True]
    assert kernels.chunk_o.TRITON_ABOVE_3_7_1
    kernel_tuning.time_refused_kernels.cache_clear()

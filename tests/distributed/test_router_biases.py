"""optimizer.router_bias_update_rate: biases of routers follow the load of experts, on any number of ranks."""

import json

import numpy
import pytest
import runs
from runs import assert_bit_equal, losses, steps, take_checkpoint, weights

RATE = 0.01
MODEL = ["model.config={model_type: glm4_moe, hidden_size: 64, intermediate_size: 160, moe_intermediate_size: 32, "
         "num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 16, vocab_size: 512, "
         "hidden_act: silu, max_position_embeddings: 512, n_routed_experts: 6, num_experts_per_tok: 2, "
         "n_shared_experts: 1, first_k_dense_replace: 1, n_group: 1, topk_group: 1}"]
RATES = [f"optimizer.router_bias_update_rate={RATE}"]
BALANCED = [*MODEL, *RATES]
# By the scores that choose experts. One layer has experts.
ONE_LAYER = {
    "sigmoid": [*MODEL, "model.config.num_hidden_layers=2"],
    "softmax": ["model.config={model_type: ernie4_5_moe, hidden_size: 64, intermediate_size: 160, "
                "moe_intermediate_size: 32, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, "
                "vocab_size: 512, max_position_embeddings: 512, moe_num_experts: 6, moe_k: 2}"],
}
SAVES = ["checkpoint.save_steps=5", "checkpoint.keep=10"]


def biases(run):
    found = {name: values for name, values in weights(run).items() if name.endswith("router.choice_bias")}
    assert found
    return found


def assert_equal_biases(first, second):
    found, wanted = biases(first), biases(second)
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        numpy.testing.assert_array_equal(found[name], values)


@pytest.fixture(scope="session")
def balanced(lab):
    return lab.run("router-biases", *BALANCED, *SAVES, ranks=2)


@pytest.mark.parametrize("scores", ONE_LAYER)
def test_biases_are_the_sum_of_signs_over_steps(lab, scores):
    run = lab.run(f"router-biases-of-one-layer-{scores}", *ONE_LAYER[scores], *RATES, *SAVES, ranks=2)
    wanted = numpy.zeros(6, dtype=numpy.float32)
    for _, line in sorted(steps(run).items()):
        tokens = numpy.array(line["expert_tokens"], dtype=numpy.float64)
        wanted += numpy.float32(RATE) * numpy.sign(tokens.mean() - tokens).astype(numpy.float32)
    [found] = biases(run).values()
    numpy.testing.assert_allclose(found, wanted, atol=1e-6)
    assert (found != 0).any()


def test_experts_are_balanced_better_than_without(lab, balanced):
    without = lab.run("router-biases-stay", *MODEL, ranks=2)
    busiest = [numpy.mean([line["expert_load_max"] for step, line in steps(run).items() if step > 10])
               for run in (balanced, without)]
    assert busiest[0] < 0.9 * busiest[1]


@pytest.mark.parametrize("ranks, settings", [
    (3, []), (2, ["parallel.zero_stage=2"]), (4, ["parallel.shard_size=2"]), (4, ["parallel.shard_size=1"]),
    (2, ["parallel.accumulate=local"]), (2, ["optimizer.name=muon"])])
def test_any_number_of_ranks_has_the_same_biases(lab, ranks, settings):
    few = [*BALANCED, "run.max_steps=5", "checkpoint.save_steps=5"]
    optimizer = [setting for setting in settings if setting.startswith("optimizer")]
    name = f"router-biases-{ranks}-" + "-".join(settings).replace("=", "-")
    assert_equal_biases(lab.run(name, *few, *settings, ranks=ranks), lab.run(f"{name}-one", *few, *optimizer))


def test_two_runs_are_bit_equal(lab, balanced):
    assert_bit_equal(lab.run("router-biases-again", *BALANCED, *SAVES, ranks=2), balanced)


def test_a_resumed_run_is_bit_equal(lab, balanced):
    take_checkpoint(balanced, 10, lab.folder / "runs" / "router-biases-resumed")
    resumed = lab.run("router-biases-resumed", *BALANCED, *SAVES, ranks=2)
    assert losses(resumed) == losses(balanced)[10:]
    assert_equal_biases(resumed, balanced)


def test_a_refused_step_leaves_the_biases(lab):
    settings = [*BALANCED, "guard.non_finite=skip", "fault.kind=nan_gradient", "fault.step=5", "run.max_steps=5",
                "checkpoint.save_steps=4", "checkpoint.keep=10"]
    run = lab.run("router-biases-refused", *settings, ranks=2)
    before = lab.folder / "runs" / "router-biases-before-refused"
    take_checkpoint(run, 4, before)
    assert_equal_biases(run, before)


def test_an_export_has_the_biases(lab, balanced, tmp_path):
    from safetensors.numpy import load_file

    done = runs.subprocess.run([runs.PROGRAM, "export", str(balanced), "--out", str(tmp_path / "exported"),
                                "--dtype", "float32"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    exported = {}
    for file in (tmp_path / "exported").glob("*.safetensors"):
        exported.update(load_file(file))
    for name, values in biases(balanced).items():
        layer = name.split(".")[1]
        numpy.testing.assert_array_equal(exported[f"model.layers.{layer}.mlp.gate.e_score_correction_bias"], values)
    assert json.loads((tmp_path / "exported" / "config.json").read_text())["model_type"] == "glm4_moe"


@pytest.mark.parametrize("settings, wanted", [
    ([], "the routers of the model have no bias for the choice of experts"),
    ([*MODEL, "adapter.kind=lora", "adapter.rank=4"], "an adapter is trained")])
def test_other_runs_refuse_a_rate(lab, settings, wanted):
    process = lab.start("router-biases-refuse", "optimizer.router_bias_update_rate=0.001", *settings)
    code, _, err = lab.finish(process)
    assert code == 64, err
    assert "optimizer.router_bias_update_rate is 0.001" in err and wanted in err

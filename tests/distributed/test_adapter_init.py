"""Adapters of PiSSA: the weights below are residuals, the same on any number of ranks and after a resumption."""

import json
import subprocess

import numpy
import pytest
import torch
from runs import PROGRAM, losses, steps, take_checkpoint, weights
from safetensors.numpy import load_file

ADAPTER = ["adapter.kind=lora", "adapter.rank=4", "adapter.alpha=6", "adapter.rank_pattern={v_proj: 3}",
           "optimizer.learning_rate=1.0e-2"]
PISSA = [*ADAPTER, "adapter.init=pissa"]
SAVES = ["checkpoint.save_steps=7", "checkpoint.keep=10"]
INITIAL = "initial."


@pytest.fixture(scope="session")
def unbroken(lab):
    return lab.run("pissa", *PISSA, *SAVES)


@pytest.fixture(scope="session")
def plain(lab):
    """The same adapter with the default initial values, of which B is zero."""
    return lab.run("pissa-plain", *ADAPTER, "run.max_steps=1", "optimizer.learning_rate=0")


def manifest(run, step):
    return json.loads((run / "checkpoints" / f"step-{step}" / "manifest.json").read_text())


def initial_values(run):
    return {name: values for name, values in weights(run).items() if name.startswith(INITIAL)}


def export(run, out, *options):
    done = subprocess.run([PROGRAM, "export", str(run), "--out", str(out), *map(str, options)], check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def merged(run, out):
    return load_file(export(run, out, "--merge", "--dtype", "float32") / "model.safetensors")


def refusal(lab, name, *settings):
    code, _, err = lab.finish(lab.start(name, *settings))
    return code, err


@pytest.mark.parametrize("init", ["pissa", "pissa_niter_4"])
def test_the_first_loss_is_that_of_the_model_below(lab, unbroken, plain, init):
    run = unbroken if init == "pissa" else lab.run("pissa-niter", *ADAPTER, f"adapter.init={init}")
    numpy.testing.assert_allclose(losses(run)[0], losses(plain)[0], rtol=1e-5)
    assert losses(run)[-1] < losses(run)[0] - 0.01


def test_the_digest_is_that_of_the_model_before_anything_is_subtracted(unbroken, plain):
    assert manifest(unbroken, 7)["state"]["base_digest"] == manifest(plain, 1)["state"]["base_digest"]


@pytest.mark.parametrize("settings", [[], ["parallel.zero_stage=2"], ["parallel.shard_size=1"]])
@pytest.mark.parametrize("ranks", [2, 3])
def test_several_ranks_train_as_one(lab, unbroken, settings, ranks):
    other = lab.run("-".join(["pissa", str(ranks), *settings]), *PISSA, *settings, ranks=ranks)
    numpy.testing.assert_allclose(losses(other), losses(unbroken), rtol=2e-5)
    for name, values in initial_values(unbroken).items():
        numpy.testing.assert_allclose(weights(other)[name], values, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_resumed_run_continues_as_uninterrupted(lab, unbroken, ranks):
    name = f"pissa-resumed-{ranks}"
    take_checkpoint(unbroken, 7, lab.folder / "runs" / name)
    resumed = lab.run(name, *PISSA, *SAVES, ranks=ranks)
    assert sorted(steps(resumed)) == list(range(8, 21))
    numpy.testing.assert_allclose(losses(resumed), losses(unbroken)[7:], rtol=0 if ranks == 1 else 2e-5)
    wanted = initial_values(unbroken)
    assert wanted and all((values == wanted[name]).all() for name, values in initial_values(resumed).items())


def test_a_checkpoint_holds_initial_values_of_every_matrix(unbroken):
    saved = manifest(unbroken, 7)
    assert saved["requires"] == ["adapter", "initial-adapter-values"]
    trained = {name for name in saved["parameters"] if not name.startswith(INITIAL)}
    assert set(saved["parameters"]) == trained | {INITIAL + name for name in trained}


@pytest.mark.parametrize("compute", ["fp32", "bf16"])
def test_residual_and_adapter_are_merged_as_the_run_had_them(lab, plain, tmp_path, compute):
    """Without a step the merge is round(W - scale B A) + scale B A, as numpy computes it."""
    run = lab.run(f"pissa-still-{compute}", *PISSA, "run.max_steps=1", "optimizer.learning_rate=0",
                  f"precision.compute={compute}")
    base, found, saved = merged(plain, tmp_path / "base"), merged(run, tmp_path / "merged"), weights(run)
    dtype = torch.float32 if compute == "fp32" else torch.bfloat16
    name = "model.layers.1.mlp.down_proj.weight"
    b = torch.from_numpy(saved["layers.1.mlp.down.down_proj.lora_B"]).view(64, 4)
    update = 6 / 4 * b @ torch.from_numpy(saved["layers.1.mlp.down.lora_A"]).view(4, 160)
    weight = torch.from_numpy(base[name]).to(dtype).float()
    wanted = (weight - update).to(dtype).float() + update
    # Another order of sums may round a residual to the next number.
    numpy.testing.assert_allclose(found[name], wanted, atol=1e-6 if compute == "fp32" else 1e-3)
    assert (numpy.abs(found[name] - wanted.numpy()) < 1e-6).mean() > 0.99
    assert compute == "fp32" or not numpy.allclose(found[name], weight, atol=1e-6)


def test_evaluation_merge_and_peft_folder_are_one_model(lab, unbroken, tmp_path):
    adapted = lab.evaluate("pissa", *PISSA)
    export(unbroken, tmp_path / "peft")
    config = json.loads((tmp_path / "peft" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["init_lora_weights"]) == (8, 12, True)
    assert config["rank_pattern"] == {"v_proj": 6}
    read = lab.evaluate("pissa-read", f"adapter.path={tmp_path / 'peft'}")
    export(unbroken, tmp_path / "merged", "--merge", "--dtype", "float32")
    whole = lab.evaluate("pissa-merged", "model.config=null", f"model.path={tmp_path / 'merged'}")
    numpy.testing.assert_allclose(read["loss"], adapted["loss"], rtol=1e-5)
    numpy.testing.assert_allclose(whole["loss"], adapted["loss"], rtol=1e-5)


def test_merge_and_export_write_the_same_model(lab, plain, tmp_path):
    over = ["model.config=null", f"model.path={export(plain, tmp_path / 'base', '--merge', '--dtype', 'float32')}"]
    run = lab.run("pissa-over-folder", *PISSA, *over, "run.max_steps=3")
    exported = merged(run, tmp_path / "exported")
    done = subprocess.run([PROGRAM, "merge", tmp_path / "base", run / "checkpoints" / "step-3", "--out",
                           tmp_path / "merged", "--dtype", "float32"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    other = load_file(tmp_path / "merged" / "model.safetensors")
    assert exported.keys() == other.keys()
    assert all((exported[name] == other[name]).all() for name in other)


def test_an_adapter_is_trained_further_over_the_same_residual(lab, unbroken):
    path = f"adapter.path={unbroken / 'checkpoints' / 'step-20'}"
    again = lab.run("pissa-further", path, "optimizer.learning_rate=0", "run.max_steps=1", ranks=2)
    wanted = initial_values(unbroken)
    assert wanted and all((values == wanted[name]).all() for name, values in initial_values(again).items())
    loss = lab.evaluate("pissa-further", path)["loss"]
    numpy.testing.assert_allclose(loss, lab.evaluate("pissa", *PISSA)["loss"], rtol=1e-6)
    assert losses(again)[0] < losses(unbroken)[0] - 0.002  # of the same batch


def test_another_kind_of_initial_values_does_not_continue(lab, unbroken):
    take_checkpoint(unbroken, 7, lab.folder / "runs" / "pissa-changed")
    code, err = refusal(lab, "pissa-changed", *ADAPTER, *SAVES)
    assert code == 66
    assert "step-7 was trained with adapter.init: pissa" in err


EXPERTS = ("model.config={model_type: qwen3_moe, hidden_size: 64, intermediate_size: 160, moe_intermediate_size: 48, "
           "num_experts: 6, num_experts_per_tok: 2, norm_topk_prob: true, num_hidden_layers: 2, "
           "num_attention_heads: 4, num_key_value_heads: 2, head_dim: 16, vocab_size: 512, hidden_act: silu, "
           "max_position_embeddings: 512, rms_norm_eps: 1.0e-6, tie_word_embeddings: true}")


@pytest.mark.parametrize("settings, message", [
    (["adapter.init=loftq"], "adapter.init is loftq"),
    (["adapters=[{name: a}, {name: b}]"], "adapter.init: pissa is not possible with several adapters"),
    ([EXPERTS, "adapter.targets=[experts.down_proj]"], "adapter.init: pissa"),
    (["model.config.tie_word_embeddings=false", "adapter.targets=[embed_tokens]"], "adapter.init: pissa")])
def test_what_has_no_such_values_is_refused_by_name(lab, settings, message):
    code, err = refusal(lab, "pissa-refused", *PISSA, *settings)
    assert code == 64
    assert message in err

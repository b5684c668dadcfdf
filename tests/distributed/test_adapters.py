"""Adapters: the same on any number of ranks, resumed = uninterrupted, and the model below stays as it is."""

import json
import subprocess

import numpy
import pytest
from runs import PROGRAM, losses, steps, take_checkpoint, weights

ADAPTER = ["adapter.kind=lora", "adapter.rank=4", "adapter.alpha=8", "optimizer.learning_rate=1.0e-2"]
SAVES = ["checkpoint.save_steps=7", "checkpoint.keep=10"]


@pytest.fixture(scope="session")
def unbroken(lab):
    return lab.run("adapter", *ADAPTER, *SAVES)


def manifest(run, step):
    return json.loads((run / "checkpoints" / f"step-{step}" / "manifest.json").read_text())


def finish(lab, name, *settings, **options):
    return lab.finish(lab.start(name, *settings, **options))


def export(run, out, *options):
    return subprocess.run([PROGRAM, "export", str(run), "--out", str(out), *map(str, options)], check=False,
                          capture_output=True, text=True)


def test_an_adapter_learns(unbroken):
    assert losses(unbroken)[-1] < losses(unbroken)[0] - 0.02


@pytest.mark.parametrize("settings", [[], ["parallel.zero_stage=2"], ["parallel.shard_size=1"],
                                      ["memory.recompute=full"], ["memory.recompute=selective"]])
def test_two_ranks_train_as_one(lab, unbroken, settings):
    two = lab.run("adapter-" + "-".join(["two", *settings]), *ADAPTER, *settings, ranks=2)
    numpy.testing.assert_allclose(losses(two), losses(unbroken), rtol=2e-5)


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_resumed_adapter_continues_as_uninterrupted(lab, unbroken, ranks):
    name = f"adapter-resumed-{ranks}"
    take_checkpoint(unbroken, 7, lab.folder / "runs" / name)
    resumed = lab.run(name, *ADAPTER, *SAVES, ranks=ranks)
    assert sorted(steps(resumed)) == list(range(8, 21))
    numpy.testing.assert_allclose(losses(resumed), losses(unbroken)[7:], rtol=0 if ranks == 1 else 2e-5)


def test_a_checkpoint_holds_the_adapter_alone(unbroken):
    saved = manifest(unbroken, 7)
    assert saved["requires"] == ["adapter"]
    assert set(saved["parameters"]) == {
        f"layers.{layer}.{name}" for layer in range(4) for name in (
            "attention.qkv.lora_A", "attention.qkv.q_proj.lora_B", "attention.qkv.k_proj.lora_B",
            "attention.qkv.v_proj.lora_B", "attention.output.lora_A", "attention.output.o_proj.lora_B",
            "mlp.gate_up.lora_A", "mlp.gate_up.gate_proj.lora_B", "mlp.gate_up.up_proj.lora_B",
            "mlp.down.lora_A", "mlp.down.down_proj.lora_B")}


def test_the_base_has_one_digest_on_any_number_of_ranks(lab, unbroken):
    three = lab.run("adapter-digest", *ADAPTER, "run.max_steps=2", ranks=3)
    assert manifest(three, 2)["state"]["base_digest"] == manifest(unbroken, 7)["state"]["base_digest"]


def test_an_adapter_does_not_continue_over_another_base(lab, unbroken):
    take_checkpoint(unbroken, 7, lab.folder / "runs" / "adapter-other-base")
    code, _, err = finish(lab, "adapter-other-base", *ADAPTER, *SAVES, "run.seed=6",
                          "checkpoint.allow_changed=[run.seed]")
    assert code == 66
    assert "was trained over weights of digest" in err


def test_changed_options_of_an_adapter_are_refused(lab, unbroken):
    take_checkpoint(unbroken, 7, lab.folder / "runs" / "adapter-changed")
    code, _, err = finish(lab, "adapter-changed", *ADAPTER, *SAVES, "adapter.alpha=9")
    assert code == 66
    assert "adapter.alpha: 8" in err


def test_a_saved_module_is_trained_whole_with_the_adapter(lab):
    run = lab.run("adapter-saves", *ADAPTER, "adapter.save=[embed_tokens]", "adapter.targets=[q_proj]",
                  "run.max_steps=4", ranks=2)
    assert "embed.weight" in manifest(run, 4)["parameters"]
    assert set(weights(run)) == {"embed.weight", *(
        f"layers.{layer}.attention.qkv.{name}" for layer in range(4) for name in ("lora_A", "q_proj.lora_B"))}


UNTIED = ["model.config.tie_word_embeddings=false", "adapter.targets=[embed_tokens,lm_head,down_proj]"]


def test_embedding_and_head_have_adapters_on_any_number_of_ranks(lab):
    one = lab.run("adapter-ends", *ADAPTER, *UNTIED)
    three = lab.run("adapter-ends-3", *ADAPTER, *UNTIED, "memory.recompute=full", ranks=3)
    assert {"embed.lora_A", "embed.embed_tokens.lora_B", "head.lora_A", "head.lm_head.lora_B"} < set(weights(one))
    numpy.testing.assert_allclose(losses(three), losses(one), rtol=2e-5)
    assert all(abs(values).max() > 0 for values in weights(one).values())


@pytest.mark.parametrize("settings", [[], UNTIED])
def test_the_merged_model_has_the_loss_of_the_adapter(lab, unbroken, tmp_path, settings):
    run = lab.run("adapter-ends-merged", *ADAPTER, *settings) if settings else unbroken
    done = export(run, tmp_path / "merged", "--merge", "--dtype", "float32")
    assert done.returncode == 0, done.stderr
    adapted = lab.evaluate(run.name, *ADAPTER, *settings)
    whole = lab.evaluate("merged-model", "model.config=null", f"model.path={tmp_path / 'merged'}")
    numpy.testing.assert_allclose(whole["loss"], adapted["loss"], rtol=1e-5)


EXPERTS = ["model.config={model_type: qwen3_moe, hidden_size: 64, intermediate_size: 160, moe_intermediate_size: 48, "
           "num_experts: 6, num_experts_per_tok: 2, norm_topk_prob: true, mlp_only_layers: [1], num_hidden_layers: 3, "
           "num_attention_heads: 4, num_key_value_heads: 2, head_dim: 16, vocab_size: 512, hidden_act: silu, "
           "max_position_embeddings: 512, rms_norm_eps: 1.0e-6, tie_word_embeddings: true}",
           "adapter.targets=[all-linear, experts.gate_up_proj, '*.experts.down']", "run.max_steps=8"]


@pytest.fixture(scope="session")
def of_experts(lab):
    return lab.run("adapter-experts", *ADAPTER, *EXPERTS, "checkpoint.save_steps=4", "checkpoint.keep=10")


@pytest.mark.parametrize("ranks, settings", [(2, ["memory.recompute=full"]), (3, ["memory.recompute=selective"]),
                                             (2, ["parallel.zero_stage=2", "batch.strategy=padding"])])
def test_adapters_of_experts_train_the_same_on_any_number_of_ranks(lab, of_experts, ranks, settings):
    other = lab.run("adapter-experts-" + "-".join([str(ranks), *settings]), *ADAPTER, *EXPERTS, *settings, ranks=ranks)
    numpy.testing.assert_allclose(losses(other), losses(of_experts), rtol=2e-5)
    saved = weights(of_experts)
    assert {f"layers.{layer}.mlp.experts.{name}" for layer in (0, 2) for name in (
        "gate_up.lora_A", "gate_up.gate_up_proj.lora_B", "down.lora_A", "down.down_proj.lora_B")} < set(saved)
    assert all(abs(values).max() > 0 for values in saved.values())


def test_a_resumed_adapter_of_experts_continues_as_uninterrupted(lab, of_experts):
    take_checkpoint(of_experts, 4, lab.folder / "runs" / "adapter-experts-resumed")
    resumed = lab.run("adapter-experts-resumed", *ADAPTER, *EXPERTS, "checkpoint.save_steps=4", "checkpoint.keep=10",
                      ranks=3)
    numpy.testing.assert_allclose(losses(resumed), losses(of_experts)[4:], rtol=2e-5)


def test_an_adapter_of_experts_is_merged_and_read_from_peft(lab, of_experts, tmp_path):
    for out, options in (("merged", ["--merge", "--dtype", "float32"]), ("peft", [])):
        done = export(of_experts, tmp_path / out, *options)
        assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "peft" / "adapter_config.json").read_text())
    assert config["target_parameters"] == ["mlp.experts.down_proj", "mlp.experts.gate_up_proj"]
    adapted = lab.evaluate("adapter-experts", *ADAPTER, *EXPERTS)
    read = lab.evaluate("adapter-experts-read", *EXPERTS[:1], f"adapter.path={tmp_path / 'peft'}")
    whole = lab.evaluate("adapter-experts-merged", "model.config=null", f"model.path={tmp_path / 'merged'}")
    assert read["loss"] == adapted["loss"]
    numpy.testing.assert_allclose(whole["loss"], adapted["loss"], rtol=1e-5)


@pytest.mark.parametrize("settings, message", [
    (["adapter.dropout=0.1"], "adapters of experts have no dropout"),
    (["adapter.targets=[down_proj]", "adapter.exclude=['*.1.mlp.*']"], "leave no module"),
    (["adapter.targets=[experts.up_proj]"], "Its experts are experts.down_proj, experts.gate_up_proj"),
    (["adapter.save=[experts.down_proj]"], "experts are not trained whole")])
def test_adapters_that_experts_do_not_have_are_refused(lab, settings, message):
    code, _, err = finish(lab, "adapter-experts-refused", *ADAPTER, *EXPERTS, *settings)
    assert code == 64
    assert message in err


DROPOUT = ["adapter.dropout=0.2", "run.max_steps=8"]


@pytest.mark.parametrize("ranks, settings", [(3, []), (1, ["batch.strategy=padding"]),
                                             (2, ["memory.recompute=full", "batch.max_tokens_per_micro_batch=512"])])
def test_masks_of_dropout_do_not_depend_on_packs_or_ranks(lab, ranks, settings):
    whole = lab.folder / "runs" / "adapter-dropout"
    if not whole.exists():
        lab.run("adapter-dropout", *ADAPTER, *UNTIED, *DROPOUT)
    other = lab.run(f"adapter-dropout-{ranks}", *ADAPTER, *UNTIED, *DROPOUT, *settings, ranks=ranks)
    numpy.testing.assert_allclose(losses(other), losses(whole), rtol=2e-5)


def test_a_peft_folder_is_written_read_and_merged(lab, unbroken, tmp_path):
    """The adapter over a folder of its model: exported, evaluated from the PEFT folder, and merged by its own command."""
    base = lab.run("adapter-base", "run.max_steps=2", "run.seed=5")
    assert export(base, tmp_path / "base", "--dtype", "float32").returncode == 0
    over = ["model.config=null", f"model.path={tmp_path / 'base'}"]
    run = lab.run("adapter-over-folder", *ADAPTER, *over, "run.max_steps=6")
    done = export(run, tmp_path / "peft")
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "peft" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["base_model_name_or_path"]) == (4, 8, str(tmp_path / "base"))
    untrained = lab.evaluate("adapter-untrained", *over)  # model.path is given, so no checkpoint of a run is read
    adapted = lab.evaluate("adapter-read", *over, f"adapter.path={run / 'checkpoints' / 'step-6'}")
    read = lab.evaluate("peft-read", *over, f"adapter.path={tmp_path / 'peft'}")
    assert read["loss"] == adapted["loss"] != untrained["loss"]
    done = subprocess.run([PROGRAM, "merge", tmp_path / "base", tmp_path / "peft", "--out", tmp_path / "merged",
                           "--dtype", "float32"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    merged = lab.evaluate("peft-merged", "model.config=null", f"model.path={tmp_path / 'merged'}")
    numpy.testing.assert_allclose(merged["loss"], adapted["loss"], rtol=1e-5)


def test_options_for_a_whole_model_are_refused_for_an_adapter(unbroken, tmp_path):
    done = export(unbroken, tmp_path / "peft", "--text-only")
    assert done.returncode == 64
    assert "add --merge" in done.stderr


def test_a_merge_over_another_base_is_refused(lab, unbroken, tmp_path):
    other = lab.run("other-base", "run.max_steps=1")
    assert export(other, tmp_path / "other").returncode == 0
    done = export(unbroken, tmp_path / "merged", "--merge", "--base", tmp_path / "other")
    assert done.returncode == 66
    assert "the adapter was trained over" in done.stderr
    assert not (tmp_path / "merged").exists()


def test_an_adapter_is_trained_further_by_another_run(lab, unbroken):
    again = lab.run("adapter-further", *ADAPTER[3:], "run.max_steps=1", "optimizer.learning_rate=0",
                    f"adapter.path={unbroken / 'checkpoints' / 'step-20'}")
    end = weights(unbroken)
    for name, values in weights(again).items():
        numpy.testing.assert_array_equal(values, end[name])


@pytest.mark.parametrize("settings, words", [
    (["adapter.rank=8"], "adapter.rank is 8, but the adapter of adapter.path ({path}) has 4"),
    (["adapter.rank=16"], "adapter.rank is 16, but the adapter of adapter.path ({path}) has 4"),  # the default
    (["adapter.rank=4", "adapter.alpha=4"], "adapter.alpha is 4, but the adapter of adapter.path ({path}) has 8"),
    (["adapter.targets=[q_proj]"], 'adapter.targets is ["q_proj"], but the adapter of adapter.path ({path}) has '),
    (["adapter.dropout=0.5"], "adapter.dropout is 0.5, but the adapter of adapter.path ({path}) has 0"),
    (["adapter.use_dora=true"], "adapter.use_dora is true, but the adapter of adapter.path ({path}) has false")])
@pytest.mark.parametrize("kind", ["checkpoint", "peft"])
def test_keys_that_differ_from_the_adapter_of_a_path_are_named(lab, unbroken, tmp_path, kind, settings, words):
    path = unbroken / "checkpoints" / "step-20"
    if kind == "peft":
        path = tmp_path / "peft"
        assert export(unbroken, path).returncode == 0
    code, _, err = finish(lab, "adapter-other-keys", *settings, f"adapter.path={path}")
    assert code == 64
    assert words.format(path=path) in err, err


def test_keys_that_repeat_the_adapter_of_a_path_are_allowed(lab, unbroken, tmp_path):
    assert export(unbroken, tmp_path / "peft").returncode == 0
    modules = "adapter.targets=[attention.qkv, o_proj, mlp.gate_up, down_proj]"
    short = ["run.max_steps=1", "optimizer.learning_rate=0", f"adapter.path={tmp_path / 'peft'}"]
    again = lab.run("adapter-same-keys", *ADAPTER, modules, *short)
    end = weights(unbroken)
    assert all((values == end[name]).all() for name, values in weights(again).items())
    lab.run("adapter-same-keys", *short)  # resumes without them


def test_evaluate_names_keys_that_differ_from_the_checkpoints_adapter(lab, unbroken):
    own = lab.evaluate("adapter", *ADAPTER)["loss"]
    assert lab.evaluate("adapter")["loss"] == own
    code, _, err = finish(lab, "adapter", *ADAPTER, "adapter.rank=8", command="evaluate")
    assert code == 64
    assert "adapter.rank is 8, but" in err and "step-20, which would be evaluated, was trained with 4" in err, err


def test_evaluate_names_a_kind_of_none_that_the_checkpoint_does_not_have(lab, unbroken):
    code, _, err = finish(lab, "adapter", "adapter.kind=none", command="evaluate")
    assert code == 64
    assert "adapter.kind is none, but" in err and "--without-adapter" in err, err


def test_evaluate_takes_the_adapter_that_is_named(lab, unbroken, tmp_path):
    """Also where the run has checkpoints of its own."""
    early = unbroken / "checkpoints" / "step-7"
    loss = lab.evaluate("adapter", f"adapter.path={early}")["loss"]
    assert loss != lab.evaluate("adapter")["loss"]
    assert loss == lab.evaluate("adapter-none", f"adapter.path={early}")["loss"]


@pytest.mark.parametrize("settings, message", [
    (["adapter.targets=[q_porj]"], "'q_porj' matches no module"),
    (["adapter.rank=65"], "is a matrix"),
    (["adapter.layers_to_transform=[4]"], "the model has 4 layers"),
    (["adapter.rank_pattern={q_proj: 1.5}"], "wanted an integer"),
    (["adapter.save=[k_proj]"], "stored together with other modules"),
    (["adapter.targets=[norm]"], "no linear layer"),
    (["adapter.targets=[embed_tokens]"], "the head's weight too"),
    (["adapter.exclude=['*']"], "leave no module")])
def test_an_adapter_that_does_not_fit_is_refused(lab, settings, message):
    code, _, err = finish(lab, "adapter-refused", *ADAPTER, *settings)
    assert code == 64
    assert message in err

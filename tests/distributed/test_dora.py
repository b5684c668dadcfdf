"""DoRA: magnitudes train the same on any number of ranks, over NF4 too, and are resumed, exported and merged."""

import json
import subprocess

import numpy
import pytest
from runs import PROGRAM, losses, steps, take_checkpoint, weights

DORA = ["adapter.kind=lora", "adapter.rank=4", "adapter.alpha=8", "adapter.use_dora=true",
        "optimizer.learning_rate=1.0e-2"]
SAVES = ["checkpoint.save_steps=7", "checkpoint.keep=10"]
MAGNITUDE = ".lora_magnitude_vector"
# Tensors in NF4 are whole blocks of 64 elements.
NF4 = ["model.base=nf4", "model.config.intermediate_size=192"]


@pytest.fixture(scope="session")
def unbroken(lab):
    return lab.run("dora", *DORA, *SAVES)


def manifest(run, step):
    return json.loads((run / "checkpoints" / f"step-{step}" / "manifest.json").read_text())


def magnitudes(run):
    return {name: values for name, values in weights(run).items() if name.endswith(MAGNITUDE)}


def packtrain(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def refusal(lab, name, *settings):
    code, _, err = lab.finish(lab.start(name, *settings))
    return code, err


def test_training_begins_at_the_loss_of_the_model_and_moves_every_magnitude(lab, unbroken):
    still = lab.run("dora-still", *DORA, "run.max_steps=1", "optimizer.learning_rate=0")
    plain = lab.run("dora-plain", *DORA, "adapter.use_dora=false", "run.max_steps=1", "optimizer.learning_rate=0")
    numpy.testing.assert_allclose(losses(still)[0], losses(plain)[0], rtol=1e-6)
    assert losses(unbroken)[-1] < losses(unbroken)[0] - 0.01
    begin, end = magnitudes(still), magnitudes(unbroken)
    assert len(end) == 4 * 7
    assert all((begin[name] > 0).all() and (values != begin[name]).all() for name, values in end.items())


@pytest.mark.parametrize("ranks, settings", [
    (2, []), (2, ["parallel.zero_stage=2"]), (2, ["parallel.shard_size=1"]), (2, ["memory.recompute=full"]),
    (2, ["memory.recompute=selective"]), (2, ["batch.strategy=padding"]), (3, ["parallel.zero_stage=2"]),
    (4, ["parallel.shard_size=2"])])
def test_several_ranks_train_as_one(lab, unbroken, ranks, settings):
    other = lab.run("-".join(["dora", str(ranks), *settings]), *DORA, *settings, ranks=ranks)
    numpy.testing.assert_allclose(losses(other), losses(unbroken), rtol=2e-5)


def test_magnitudes_begin_with_the_same_bits_on_any_number_of_ranks(lab):
    still = [*DORA, "run.max_steps=1", "optimizer.learning_rate=0", "optimizer.weight_decay=0"]
    one, three = (magnitudes(lab.run(f"dora-still-{ranks}", *still, ranks=ranks)) for ranks in (1, 3))
    assert one and all((one[name] == values).all() for name, values in three.items())


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_resumed_run_continues_as_uninterrupted(lab, unbroken, ranks):
    name = f"dora-resumed-{ranks}"
    take_checkpoint(unbroken, 7, lab.folder / "runs" / name)
    resumed = lab.run(name, *DORA, *SAVES, ranks=ranks)
    assert sorted(steps(resumed)) == list(range(8, 21))
    numpy.testing.assert_allclose(losses(resumed), losses(unbroken)[7:], rtol=0 if ranks == 1 else 2e-5)


def test_a_checkpoint_says_that_it_needs_magnitudes(unbroken):
    saved = manifest(unbroken, 7)
    assert saved["requires"] == ["adapter", "adapter-magnitudes"]
    assert saved["parameters"]["layers.1.attention.qkv.v_proj.lora_magnitude_vector"] == [32]


def test_a_run_does_not_continue_without_its_magnitudes(lab, unbroken):
    take_checkpoint(unbroken, 7, lab.folder / "runs" / "dora-changed")
    code, err = refusal(lab, "dora-changed", *DORA, *SAVES, "adapter.use_dora=false")
    assert code == 66
    assert "adapter.use_dora: true" in err


def test_magnitudes_stay_float32_where_the_model_is_bfloat16(lab):
    """In bfloat16 a magnitude would have a relative error of 2^-9, and the first loss would not be the model's."""
    still = ["run.max_steps=1", "optimizer.learning_rate=0", "precision.compute=bf16"]
    run = lab.run("dora-bf16", *DORA, *still)
    plain = lab.run("dora-bf16-plain", *DORA, "adapter.use_dora=false", *still)
    numpy.testing.assert_allclose(losses(run)[0], losses(plain)[0], rtol=2e-4)
    found = numpy.concatenate(list(magnitudes(run).values()))
    assert (found.view(numpy.uint32) & 0xFFFF != 0).mean() > 0.9


def test_two_ranks_compute_bfloat16_as_one(lab):
    runs = [lab.run(f"dora-bf16-{ranks}", *DORA, "precision.compute=bf16", ranks=ranks) for ranks in (1, 2)]
    numpy.testing.assert_allclose(losses(runs[1]), losses(runs[0]), rtol=5e-3)
    assert losses(runs[0])[-1] < losses(runs[0])[0] - 0.01


@pytest.mark.parametrize("more", [[], ["memory.recompute=full", "debug.poison_slots=true"]])
def test_two_ranks_train_over_nf4_as_one(lab, more):
    one = lab.run("-".join(["dora-nf4", *more]), *DORA, *NF4)
    two = lab.run("-".join(["dora-nf4-two", *more]), *DORA, *NF4, *more, ranks=2)
    numpy.testing.assert_allclose(losses(two), losses(one), rtol=2e-5)


DROPOUT = ["adapter.dropout=0.2", "run.max_steps=8"]


@pytest.mark.parametrize("ranks, settings", [(3, []), (1, ["batch.strategy=padding"]),
                                             (2, ["memory.recompute=full", "batch.max_tokens_per_micro_batch=512"])])
def test_masks_of_dropout_do_not_depend_on_packs_or_ranks(lab, unbroken, ranks, settings):
    whole = lab.folder / "runs" / "dora-dropout"
    if not whole.exists():
        lab.run("dora-dropout", *DORA, *DROPOUT)
    other = lab.run(f"dora-dropout-{ranks}", *DORA, *DROPOUT, *settings, ranks=ranks)
    numpy.testing.assert_allclose(losses(other), losses(whole), rtol=2e-5)
    assert abs(losses(whole)[7] - losses(unbroken)[7]) > 1e-4


def test_pissa_with_magnitudes_resumes_and_trains_the_same_on_two_ranks(lab):
    settings = [*DORA, "adapter.init=pissa", "run.max_steps=8", "checkpoint.save_steps=4", "checkpoint.keep=10"]
    one = lab.run("dora-pissa", *settings)
    assert not any(name.startswith("initial.") and MAGNITUDE in name for name in weights(one))
    two = lab.run("dora-pissa-two", *settings, ranks=2)
    numpy.testing.assert_allclose(losses(two), losses(one), rtol=2e-5)
    take_checkpoint(one, 4, lab.folder / "runs" / "dora-pissa-resumed")
    assert losses(lab.run("dora-pissa-resumed", *settings)) == losses(one)[4:]


@pytest.mark.parametrize("base", [[], NF4])
def test_the_merged_model_has_the_loss_of_the_adapter(lab, tmp_path, base):
    run = lab.run(f"dora-merged-{len(base)}", *DORA, *base, "run.max_steps=6")
    packtrain("export", run, "--out", tmp_path / "merged", "--merge", "--dtype", "float32")
    adapted = lab.evaluate(run.name, *DORA, *base)
    whole = lab.evaluate("dora-merged-model", "model.config=null", f"model.path={tmp_path / 'merged'}")
    numpy.testing.assert_allclose(whole["loss"], adapted["loss"], rtol=1e-5)


def test_a_peft_folder_is_written_read_and_merged(lab, tmp_path):
    base = lab.run("dora-base", "run.max_steps=2", "run.seed=5")
    packtrain("export", base, "--out", tmp_path / "base", "--dtype", "float32")
    over = ["model.config=null", f"model.path={tmp_path / 'base'}"]
    run = lab.run("dora-over-folder", *DORA, *over, "run.max_steps=6")
    packtrain("export", run, "--out", tmp_path / "peft")
    assert json.loads((tmp_path / "peft" / "adapter_config.json").read_text())["use_dora"] is True
    adapted = lab.evaluate("dora-read", *over, f"adapter.path={run / 'checkpoints' / 'step-6'}")
    read = lab.evaluate("dora-peft-read", *over, f"adapter.path={tmp_path / 'peft'}")
    assert read["loss"] == adapted["loss"]
    packtrain("merge", tmp_path / "base", tmp_path / "peft", "--out", tmp_path / "merged", "--dtype", "float32")
    merged = lab.evaluate("dora-peft-merged", "model.config=null", f"model.path={tmp_path / 'merged'}")
    numpy.testing.assert_allclose(merged["loss"], adapted["loss"], rtol=1e-5)


def test_an_adapter_is_trained_further_with_its_magnitudes(lab, unbroken):
    again = lab.run("dora-further", f"adapter.path={unbroken / 'checkpoints' / 'step-20'}", "run.max_steps=1",
                    "optimizer.learning_rate=0", ranks=2)
    end = magnitudes(unbroken)
    assert end and all((end[name] == values).all() for name, values in magnitudes(again).items())


def test_verify_passes(lab):
    code, out, err = lab.finish(lab.start("dora-verify", *DORA, command="verify", ranks=2))
    assert code == 0, out + err


EXPERTS = ("model.config={model_type: qwen3_moe, hidden_size: 64, intermediate_size: 160, moe_intermediate_size: 48, "
           "num_experts: 6, num_experts_per_tok: 2, norm_topk_prob: true, num_hidden_layers: 2, "
           "num_attention_heads: 4, num_key_value_heads: 2, head_dim: 16, vocab_size: 512, hidden_act: silu, "
           "max_position_embeddings: 512, rms_norm_eps: 1.0e-6, tie_word_embeddings: true}")
UNTIED = "model.config.tie_word_embeddings=false"


@pytest.mark.parametrize("settings, message", [
    (["adapters=[{name: a}, {name: b}]"], "adapter.use_dora is not possible with several adapters"),
    ([EXPERTS, "adapter.targets=[experts.down_proj]"], "adapter.use_dora: magnitudes are of linear layers"),
    ([UNTIED, "adapter.targets=[embed_tokens]"], "adapter.use_dora: magnitudes are of linear layers"),
    ([UNTIED, "adapter.targets=[lm_head]"], "adapter.use_dora: magnitudes are of linear layers")])
def test_what_has_no_magnitudes_is_refused_by_name(lab, settings, message):
    code, err = refusal(lab, "dora-refused", *DORA, *settings)
    assert code == 64
    assert message in err

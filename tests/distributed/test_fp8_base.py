"""Frozen weights as 8-bit floats with one scale each: their bytes, and the training of their decoded values."""

import json
import shutil
import subprocess

import numpy
import pytest
import torch
from frozen_weights import FROZEN, LORA, ONE_STEP, PARTS, STEPS
from runs import PROGRAM, losses, take_checkpoint, weights
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

PRODUCTS = "precision.linear=fp8_tensor"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two ranks divide a parameter."""
    path = tmp_path_factory.mktemp("hf") / "model"
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=512, hidden_size=128, intermediate_size=352, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
                         tie_word_embeddings=False)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(path)
    return path


def encode(tensors, layer, names):
    """The codes of a parameter, and the factor that they stand for: the least power of two with which all fit."""
    values = torch.cat([tensors[f"model.layers.{layer}.{name}.weight"].float().reshape(-1) for name in names])
    factor = torch.tensor(2.0) ** torch.ceil(torch.log2(values.abs().max() / 448))
    return (values / factor).to(torch.float8_e4m3fn), factor, values.abs().max()


def assert_stores(run_folder, folder):
    tensors, saved = load_file(folder / "model.safetensors"), weights(run_folder)
    for layer in range(2):
        for ours, names in PARTS.items():
            codes, factor, amax = encode(tensors, layer, names)
            stored = saved[f"layers.{layer}.{ours}.weight"]
            assert stored.dtype == numpy.uint8 and stored.size == codes.numel() + 16
            assert numpy.array_equal(stored[:-16], codes.view(torch.uint8).numpy()), ours
            assert stored[-16:-8].view(numpy.float32).tolist() == [factor.item(), amax.item()], ours
    assert saved["embed.weight"].dtype == numpy.float32  # fp32 compute


@pytest.fixture(scope="module")
def decoded_folder(folder):
    """The same model with the values of its 8-bit weights, in float32."""
    path = folder.parent / "decoded"
    shutil.copytree(folder, path)
    tensors = load_file(path / "model.safetensors")
    decoded = dict(tensors)
    for layer in range(2):
        for names in PARTS.values():
            codes, factor, _ = encode(tensors, layer, names)
            values, begin = codes.float() * factor, 0
            for name in names:
                of = f"model.layers.{layer}.{name}.weight"
                decoded[of] = values[begin:begin + tensors[of].numel()].view(tensors[of].shape).clone()
                begin += tensors[of].numel()
    save_file(decoded, path / "model.safetensors", metadata={"format": "pt"})
    return path


def of_model(path, base):
    return ["model.config=null", f"model.path={path}", f"model.base={base}"]


def frozen(path, *more, base="fp8"):
    return [*of_model(path, base), FROZEN, *more]


def test_each_weight_has_its_codes_and_its_scale_on_any_number_of_ranks(lab, folder):
    for ranks in (1, 2, 3):
        assert_stores(lab.run(f"stored-{ranks}", *frozen(folder, *ONE_STEP), ranks=ranks), folder)


@pytest.mark.parametrize("products", [[], [PRODUCTS]])
def test_training_equals_that_of_the_decoded_weights(lab, folder, decoded_folder, products):
    name = "-".join(["steps", *products])
    encoded = lab.run(f"stored-{name}", *frozen(folder, *STEPS, *products))
    plain = lab.run(f"stored-decoded-{name}", *frozen(decoded_folder, *STEPS, *products, base="bf16"))
    assert losses(encoded) == losses(plain)
    assert numpy.array_equal(weights(encoded)["final_norm.weight"], weights(plain)["final_norm.weight"])


@pytest.fixture(scope="module", params=[[], [PRODUCTS]], ids=["decoded", "products"])
def adapter_run(lab, request, folder):
    return request.param, lab.run("-".join(["stored-lora", *request.param]), *LORA, *of_model(folder, "fp8"), *request.param)


def test_an_adapter_trains_as_over_the_decoded_weights(lab, adapter_run, decoded_folder):
    products, run = adapter_run
    plain = lab.run("-".join(["stored-decoded-lora", *products]), *LORA, *of_model(decoded_folder, "bf16"), *products)
    assert losses(run) == losses(plain)
    assert len(set(losses(plain))) == 4


@pytest.mark.parametrize("more", [[], ["parallel.shard_size=1"], ["memory.recompute=full", "debug.poison_slots=true",
                                                                 "debug.check_gathers=true"]])
def test_two_ranks_train_an_adapter_as_one(lab, adapter_run, folder, more):
    products, run = adapter_run
    two = lab.run("-".join(["stored-lora-two", *products, *more]), *LORA, *of_model(folder, "fp8"), *products, *more, ranks=2)
    numpy.testing.assert_allclose(losses(two), losses(run), rtol=3.5e-4 if products else 2e-6)


def test_an_adapter_resumes_and_refuses_another_base(lab, adapter_run, folder, decoded_folder):
    products, run = adapter_run
    name = "-".join(["stored-lora-resumed", *products])
    take_checkpoint(run, 2, lab.folder / "runs" / name)
    assert losses(lab.run(name, *LORA, *of_model(folder, "fp8"), *products)) == losses(run)[2:]
    take_checkpoint(run, 2, lab.folder / "runs" / f"{name}-other")
    code, _, err = lab.finish(lab.start(f"{name}-other", *LORA, *of_model(decoded_folder, "bf16"), *products,
                                        "checkpoint.allow_changed=[model.base,model.path]"))
    assert code == 66 and "was trained over weights of digest" in err, err


def test_a_merge_adds_to_the_decoded_weights(lab, adapter_run, folder, tmp_path):
    products, run = adapter_run
    done = subprocess.run([PROGRAM, "export", str(run), "--merge", "--dtype", "float32", "--out", str(tmp_path / "merged")],
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "8-bit" in done.stderr
    if products:
        return  # the merged model's weights are not those that the products rounded
    merged = lab.evaluate("stored-merged", "model.config=null", f"model.path={tmp_path / 'merged'}")
    adapted = lab.evaluate(run.name, *LORA, *of_model(folder, "fp8"), f"adapter.path={run / 'checkpoints' / 'step-4'}")
    numpy.testing.assert_allclose(merged["loss"], adapted["loss"], rtol=1e-5)


def test_a_run_resumes_on_another_number_of_ranks(lab, folder):
    whole = lab.run("stored-whole", *frozen(folder, *STEPS))
    take_checkpoint(lab.run("stored-half", *frozen(folder, *STEPS), ranks=2), 2, lab.folder / "runs" / "stored-resumed")
    resumed = lab.run("stored-resumed", *frozen(folder, *STEPS))
    numpy.testing.assert_allclose(losses(whole)[2:], losses(resumed), rtol=1e-6)
    assert_stores(resumed, folder)
    manifest = json.loads((resumed / "checkpoints" / "step-4" / "manifest.json").read_text())
    assert manifest["requires"] == ["fp8_weights"]


def test_export_writes_decoded_weights_and_says_so(lab, folder, decoded_folder):
    run_folder, out = lab.run("stored-exported", *frozen(folder, *ONE_STEP), ranks=2), lab.folder / "stored-exported"
    done = subprocess.run([PROGRAM, "export", str(run_folder), "--out", str(out), "--dtype", "float32"],
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "8-bit floats" in done.stderr
    exported, decoded = load_file(out / "model.safetensors"), load_file(decoded_folder / "model.safetensors")
    for name in decoded:
        if name.endswith("_proj.weight"):
            assert torch.equal(exported[name], decoded[name]), name


EXPERTS = ["model.config={model_type: mixtral, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, "
           "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 512, num_local_experts: 4, "
           "num_experts_per_tok: 2, max_position_embeddings: 512, rms_norm_eps: 1.0e-6}",
           "adapter.targets=[all-linear, experts.gate_up_proj, experts.down_proj]", "model.base=fp8"]


def test_experts_have_adapters_over_8_bits_on_any_number_of_ranks(lab):
    one = lab.run("stored-base-experts", *LORA, *EXPERTS)
    two = lab.run("stored-base-experts-two", *LORA, *EXPERTS, "memory.recompute=full", "debug.poison_slots=true", ranks=2)
    numpy.testing.assert_allclose(losses(two), losses(one), rtol=2e-6)


@pytest.mark.parametrize("more", [["adapter.use_dora=true"], ["adapter.init=pissa_niter_4", "adapter.alpha=4"]])
def test_what_begins_from_the_base_is_the_same_on_any_number_of_ranks(lab, folder, more):
    runs = [lab.run("-".join([f"stored-begun-{ranks}", *more]), *LORA, *of_model(folder, "fp8"), *more, ranks=ranks)
            for ranks in (1, 2)]
    numpy.testing.assert_allclose(losses(runs[1]), losses(runs[0]), rtol=2e-6)


def test_weights_that_keep_bf16_names_are_not_encoded(lab, folder):
    code, _, err = lab.finish(lab.start("stored-kept", *LORA, *of_model(folder, "fp8"), PRODUCTS,
                                        "precision.keep_bf16=['layers.0.*']"))
    assert code == 0, err
    assert "4 weights are not stored as 8-bit floats, because precision.keep_bf16 names them" in err, err


@pytest.mark.parametrize(("settings", "fault"), [
    ([], "no weight of a projection is frozen"),
    (["adapter.kind=lora", "adapter.init=loftq"], "LoftQ reduces the error of weights in NF4")])
def test_settings_without_an_effect_are_refused(lab, folder, settings, fault):
    code, _, err = lab.finish(lab.start("stored-nothing", *of_model(folder, "fp8"), *settings))
    assert code == 64 and fault in err, err

"""Frozen weights in NF4: bit-equal to bitsandbytes', and the training of their decoded values."""

import json
import shutil
import subprocess

import bitsandbytes.functional
import numpy
import pytest
import torch
from frozen_weights import FROZEN, LORA, ONE_STEP, PARTS, STEPS
from runs import PROGRAM, losses, take_checkpoint, weights
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

GROUP_ELEMENTS = 16384
GROUP_BYTES = 64 + 256 + 8192


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A layer has 208 groups, so two ranks divide a parameter."""
    path = tmp_path_factory.mktemp("hf") / "model"
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=512, hidden_size=512, intermediate_size=1536, num_hidden_layers=2,
                         num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=512,
                         tie_word_embeddings=False)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(path)
    return path


def quantize(tensor):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    codes, state = bitsandbytes.functional.quantize_4bit(tensor, blocksize=64, compress_statistics=True,
                                                         quant_type="nf4")
    torch.set_num_threads(threads)
    return codes, state


def projections(tensors):
    return [name for name in tensors if name.endswith("_proj.weight")]


def change_copy(folder, target, change):
    """A copy of the folder with other tensors."""
    shutil.copytree(folder, target)
    tensors = load_file(target / "model.safetensors")
    change(tensors)
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return target


@pytest.fixture(scope="module")
def decoded_folder(folder):
    """The same model with the values that its NF4 weights decode to, in float32."""
    def decode(tensors):
        for name in projections(tensors):
            codes, state = quantize(tensors[name].float())
            tensors[name] = bitsandbytes.functional.dequantize_4bit(codes, state)

    return change_copy(folder, folder.parent / "decoded", decode)


@pytest.fixture(scope="module")
def quantized_folder(folder):
    """The same model as bitsandbytes saves it."""
    def encode(tensors):
        for name in projections(tensors):
            tensors[name], state = quantize(tensors[name])
            for suffix, value in state.as_dict(packed=True).items():
                tensors[f"{name}.{suffix}"] = value

    target = change_copy(folder, folder.parent / "quantized", encode)
    config = json.loads((target / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
                                     "bnb_4bit_use_double_quant": True}
    (target / "config.json").write_text(json.dumps(config))
    return target


def settings(path, *more, base="nf4"):
    return [f"model.path={path}", "model.config=null", FROZEN, f"model.base={base}", *more]


def groups_of(codes, state):
    """The bytes of a tensor as packtrain stores them."""
    numel = codes.numel() * 2
    num_groups = -(-numel // GROUP_ELEMENTS)
    groups = numpy.zeros((num_groups, GROUP_BYTES), numpy.uint8)
    absmax = numpy.zeros(num_groups * 256, numpy.uint8)
    absmax[:numel // 64] = state.absmax.numpy()
    packed = numpy.zeros(num_groups * GROUP_ELEMENTS // 2, numpy.uint8)
    packed[:numel // 2] = codes.numpy().reshape(-1)
    header = numpy.zeros((num_groups, 2), numpy.float32)
    header[:, 0] = state.state2.absmax.numpy()
    header[:, 1] = state.offset.item()
    groups[:, :8] = header.view(numpy.uint8)
    groups[:, 64:320] = absmax.reshape(num_groups, 256)
    groups[:, 320:] = packed.reshape(num_groups, -1)
    return groups.reshape(-1)


def expected_groups(folder):
    tensors = load_file(folder / "model.safetensors")
    found = {}
    for layer in range(2):
        for ours, names in PARTS.items():
            parts = [groups_of(*quantize(tensors[f"model.layers.{layer}.{name}.weight"])) for name in names]
            found[f"layers.{layer}.{ours}.weight"] = numpy.concatenate(parts)
    return found


def assert_stores(run_folder, folder):
    saved = weights(run_folder)
    for name, groups in expected_groups(folder).items():
        assert numpy.array_equal(saved[name], groups), name
    assert saved["embed.weight"].dtype == numpy.float32  # fp32 compute


def test_codes_and_scales_are_those_of_bitsandbytes_on_any_number_of_ranks(lab, folder):
    for ranks in (1, 2):
        assert_stores(lab.run(f"nf4-{ranks}", *settings(folder, *ONE_STEP), ranks=ranks), folder)


def test_a_folder_of_bitsandbytes_is_read_without_quantising_again(lab, folder, quantized_folder):
    for ranks in (1, 2):
        assert_stores(lab.run(f"bnb-{ranks}", *settings(quantized_folder, *ONE_STEP), ranks=ranks), folder)


def test_training_equals_that_of_the_decoded_weights(lab, folder, decoded_folder):
    encoded = lab.run("nf4-steps", *settings(folder, *STEPS))
    plain = lab.run("decoded-steps", *settings(decoded_folder, *STEPS, base="bf16"))
    assert losses(encoded) == losses(plain)
    assert numpy.array_equal(weights(encoded)["final_norm.weight"], weights(plain)["final_norm.weight"])


def test_ranks_do_not_change_training_and_codes_stay(lab, folder):
    one = lab.run("nf4-one", *settings(folder, *STEPS, "memory.recompute=full"))
    two = lab.run("nf4-two", *settings(folder, *STEPS, "debug.poison_slots=true", "debug.check_gathers=true"), ranks=2)
    numpy.testing.assert_allclose(losses(one), losses(two), rtol=1e-6)
    assert len(set(losses(one))) == 4
    assert_stores(two, folder)


def test_a_run_resumes_on_another_number_of_ranks(lab, folder):
    whole = lab.run("nf4-whole", *settings(folder, *STEPS))
    take_checkpoint(lab.run("nf4-half", *settings(folder, *STEPS), ranks=2), 2, lab.folder / "runs" / "nf4-resumed")
    resumed = lab.run("nf4-resumed", *settings(folder, *STEPS))
    numpy.testing.assert_allclose(losses(whole)[2:], losses(resumed), rtol=1e-6)
    assert_stores(resumed, folder)


def test_export_writes_decoded_weights_and_says_so(lab, folder, decoded_folder):
    run_folder = lab.run("nf4-exported", *settings(folder, *ONE_STEP), ranks=2)
    out = lab.folder / "exported"
    result = subprocess.run([PROGRAM, "export", str(run_folder), "--out", str(out), "--dtype", "float32"],
                            capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr
    assert "NF4" in result.stderr
    exported, decoded = load_file(out / "model.safetensors"), load_file(decoded_folder / "model.safetensors")
    for name in projections(decoded):
        assert torch.equal(exported[name], decoded[name]), name


def test_random_weights_are_the_same_on_any_number_of_ranks(lab):
    random = ["model.config.hidden_size=256", "model.config.intermediate_size=768", FROZEN.replace("head.weight, ", ""),
              "model.base=nf4", *ONE_STEP]
    one, two = (weights(lab.run(f"nf4-random-{ranks}", *random, ranks=ranks)) for ranks in (1, 2))
    assert one["layers.0.attention.qkv.weight"].dtype == numpy.uint8
    for name in one:
        assert numpy.array_equal(one[name], two[name]), name


def finish(lab, name, *overrides):
    code, _, err = lab.finish(lab.start(name, *overrides))
    return code, err


def of_model(path, base):
    return ["model.config=null", f"model.path={path}", f"model.base={base}"]


@pytest.fixture(scope="module")
def adapter_run(lab, folder):
    return lab.run("nf4-lora", *LORA, *of_model(folder, "nf4"))


def test_an_adapter_over_nf4_trains_as_over_the_decoded_weights(lab, adapter_run, decoded_folder):
    plain = lab.run("decoded-lora", *LORA, *of_model(decoded_folder, "bf16"))
    assert losses(adapter_run) == losses(plain)
    assert len(set(losses(plain))) == 4


@pytest.mark.parametrize("more", [[], ["parallel.shard_size=1"], ["memory.recompute=full", "debug.poison_slots=true"]])
def test_two_ranks_train_an_adapter_over_nf4_as_one(lab, adapter_run, folder, more):
    two = lab.run("-".join(["nf4-lora-two", *more]), *LORA, *of_model(folder, "nf4"), *more, ranks=2)
    numpy.testing.assert_allclose(losses(two), losses(adapter_run), rtol=2e-6)


def test_an_adapter_over_nf4_resumes_and_refuses_another_base(lab, adapter_run, folder, decoded_folder):
    take_checkpoint(adapter_run, 2, lab.folder / "runs" / "nf4-lora-resumed")
    resumed = lab.run("nf4-lora-resumed", *LORA, *of_model(folder, "nf4"))
    assert losses(resumed) == losses(adapter_run)[2:]
    take_checkpoint(adapter_run, 2, lab.folder / "runs" / "nf4-lora-other")
    code, err = finish(lab, "nf4-lora-other", *LORA, *of_model(decoded_folder, "bf16"),
                       "checkpoint.allow_changed=[model.base,model.path]")
    assert code == 66 and "was trained over weights of digest" in err, err


EXPERTS = ["model.config={model_type: mixtral, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, "
           "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 512, num_local_experts: 4, "
           "num_experts_per_tok: 2, max_position_embeddings: 512, rms_norm_eps: 1.0e-6}",
           "adapter.targets=[all-linear, experts.gate_up_proj, experts.down_proj]", "model.base=nf4"]


def test_experts_have_adapters_over_nf4_on_any_number_of_ranks(lab):
    one = lab.run("nf4-experts", *LORA, *EXPERTS)
    two = lab.run("nf4-experts-two", *LORA, *EXPERTS, "memory.recompute=full", "debug.poison_slots=true", ranks=2)
    numpy.testing.assert_allclose(losses(two), losses(one), rtol=2e-6)
    assert all(abs(values).max() > 0 for name, values in weights(one).items() if name.endswith("lora_B"))


def test_a_merge_adds_to_the_decoded_weights(lab, adapter_run, folder, tmp_path):
    out = tmp_path / "merged"
    done = subprocess.run([PROGRAM, "export", str(adapter_run), "--merge", "--dtype", "float32", "--out", str(out)],
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "NF4" in done.stderr
    merged = lab.evaluate("nf4-merged", "model.config=null", f"model.path={out}")
    adapted = lab.evaluate(adapter_run.name, *LORA, *of_model(folder, "nf4"),
                           f"adapter.path={adapter_run / 'checkpoints' / 'step-4'}")
    numpy.testing.assert_allclose(merged["loss"], adapted["loss"], rtol=1e-5)


def test_nf4_without_frozen_weights_is_refused(lab, folder):
    code, err = finish(lab, "nf4-nothing", f"model.path={folder}", "model.config=null", "model.base=nf4")
    assert code == 64 and "no weight of a projection is frozen" in err, err


def test_a_resumed_run_keeps_its_base(lab, folder):
    run_folder = lab.run("nf4-changed", *settings(folder, *STEPS))
    assert run_folder.exists()
    code, err = finish(lab, "nf4-changed", *settings(folder, *STEPS, "run.max_steps=6", base="bf16"))
    assert code == 66 and "model.base" in err, err


def broken(change):
    def apply(tensors):
        change(tensors, projections(tensors)[0])
    return apply


@pytest.mark.parametrize(("name", "change", "fault"), [
    ("missing", lambda tensors, of: tensors.pop(f"{of}.nested_absmax"), "has no"),
    ("short", lambda tensors, of: tensors.update({f"{of}.absmax": torch.zeros(3, dtype=torch.uint8)}), "is not uint8"),
    ("map", lambda tensors, of: tensors[f"{of}.quant_map"].mul_(2), "other values"),
    ("state", lambda tensors, of: tensors.update(
        {f"{of}.quant_state.bitsandbytes__nf4": torch.tensor(list(b"{"), dtype=torch.uint8)}), "not a JSON object"),
])
def test_a_broken_folder_of_bitsandbytes_is_refused(lab, quantized_folder, tmp_path, name, change, fault):
    path = change_copy(quantized_folder, tmp_path / name, broken(change))
    code, err = finish(lab, f"nf4-{name}", *settings(path, *ONE_STEP))
    assert code in (65, 66) and fault in err, err

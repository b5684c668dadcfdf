"""Initial values of adapters against peft in float32: PiSSA over a folder of transformers, and LoftQ over NF4."""

import json

import bitsandbytes.functional
import program
import pytest
import torch
from comparison import tensors_of
from peft import LoraConfig, PeftModel, get_peft_model
from peft_training import NAMES, OPTIONS, SETTINGS, STILL, TRAINS, Folder, in_nf4, make_model, our_losses, peft_losses
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path, make_model())


def with_signs_of(a, b, other):
    """A and B with the signs of another A, since singular vectors have none of their own."""
    signs = (a * other).sum(1).sign()
    return a * signs.unsqueeze(1), b * signs


def adapters_of(path):
    tensors = load_file(path / "adapter_model.safetensors")
    for key in tensors:
        if key.endswith(".lora_A.weight"):
            module = key.removesuffix(".lora_A.weight")
            yield module.removeprefix("base_model.model."), tensors[key], tensors[f"{module}.lora_B.weight"]


def scale_of(module, rank):
    return (5 if module.endswith("up_proj") else 6) / rank


def test_losses_of_pissa_are_those_of_peft(folder):
    before = folder.loss(folder.model()).item()
    adapted = get_peft_model(folder.model(), LoraConfig(**OPTIONS, target_modules=NAMES, init_lora_weights="pissa"))
    losses = our_losses(folder.train(*SETTINGS, *TRAINS, "adapter.init=pissa"))
    assert losses[0] == pytest.approx(before, rel=1e-5)
    assert losses == pytest.approx(peft_losses(folder, adapted), rel=1e-4)
    assert losses[-1] < losses[0] - 0.05


@pytest.mark.parametrize("init", ["pissa", "pissa_niter_4"])
def test_initial_matrices_of_pissa_are_those_of_peft(folder, init):
    """A converted folder has [A; A0] and [B, -B0]. Without a step both halves are the initial values."""
    folder.train(*SETTINGS, *STILL, f"adapter.init={init}")
    adapted = get_peft_model(folder.model(), LoraConfig(**OPTIONS, target_modules=NAMES, init_lora_weights="pissa"))
    modules = dict(adapted.base_model.model.named_modules())
    found = list(adapters_of(folder.export("peft")))
    assert len(found) == 2 * len(NAMES)
    for module, a, b in found:
        rank = a.shape[0] // 2
        assert a[:rank].equal(a[rank:])
        assert b[:, :rank].equal(-b[:, rank:])
        assert b[:, :rank].norm(dim=0).allclose(a[:rank].norm(dim=1), rtol=1e-4)
        theirs = [getattr(modules[module], name).default.weight.data for name in ("lora_A", "lora_B")]
        if init == "pissa":
            ours = with_signs_of(a[:rank], b[:, :rank], theirs[0])
            assert all(mine.allclose(other, rtol=1e-3, atol=1e-4) for mine, other in zip(ours, theirs)), module
        else:  # of a flat spectrum, by its energy
            part = b[:, :rank] @ a[:rank]
            assert part.norm() == pytest.approx((theirs[1] @ theirs[0]).norm().item(), rel=0.05)


@pytest.mark.parametrize("rslora", [False, True])
def test_peft_loads_a_trained_pissa_over_the_original_model(folder, rslora):
    settings = ["adapter.init=pissa_niter_2", f"adapter.use_rslora={str(rslora).lower()}"]
    folder.train(*SETTINGS, *TRAINS, *settings)
    adapted = PeftModel.from_pretrained(folder.model(), folder.export("peft")).eval()
    evaluated = folder.evaluate(*SETTINGS, *settings)
    merged = AutoModelForCausalLM.from_pretrained(folder.export("merged", "--merge"), attn_implementation="eager")
    with torch.no_grad():
        assert folder.loss(adapted).item() == pytest.approx(evaluated, rel=1e-5)
        assert folder.loss(merged.eval()).item() == pytest.approx(evaluated, rel=1e-5)
        assert abs(folder.loss(folder.model()).item() - evaluated) > 0.05
    theirs = adapted.merge_and_unload().state_dict()
    for name, tensor in tensors_of(folder.path / "merged").items():
        assert tensor.allclose(theirs[name], rtol=1e-4, atol=1e-5), name


def test_loftq_is_the_largest_part_of_the_error_of_nf4(folder):
    """As replace_lora_weights_loftq of peft where the scale is 1, and divided by the scale elsewhere."""
    folder.train(*SETTINGS, *STILL, "adapter.init=loftq", "model.base=nf4")
    weights = tensors_of(folder.path / "model")
    found = list(adapters_of(folder.export("peft")))
    assert len(found) == 2 * len(NAMES)
    for module, a, b in found:
        weight = weights[f"{module}.weight"]
        error = weight - in_nf4(weight)
        u, s, vh = torch.linalg.svd(error, full_matrices=False)
        rank, scale = a.shape[0], scale_of(module, a.shape[0])
        roots = (s[:rank] / scale).sqrt()
        wanted = vh[:rank] * roots.unsqueeze(1), u[:, :rank] * roots
        ours = with_signs_of(a, b, wanted[0])
        assert all(mine.allclose(other, rtol=1e-3, atol=1e-4) for mine, other in zip(ours, wanted)), module
        left = (error - scale * b @ a).norm()
        assert left == pytest.approx(s[rank:].norm().item(), rel=1e-3)
        assert left < 0.95 * error.norm()


def test_the_residual_of_pissa_is_what_nf4_stores(folder):
    folder.train(*SETTINGS, *STILL, "adapter.init=pissa", "model.base=nf4")
    weights, merged = tensors_of(folder.path / "model"), tensors_of(folder.export("merged", "--merge"))
    for module, a, b in adapters_of(folder.export("peft")):
        rank = a.shape[0] // 2
        update = scale_of(module, rank) * b[:, :rank] @ a[:rank]
        weight = weights[f"{module}.weight"]
        wanted = in_nf4(weight - update) + update
        # Another order of sums may give an element at the border of two codes the other one.
        assert ((merged[f"{module}.weight"] - wanted).abs() < 1e-5).float().mean() > 0.999, module
        assert (merged[f"{module}.weight"] - weight).norm() < (in_nf4(weight) - weight).norm()


def test_loftq_is_refused_over_a_folder_that_is_nf4_already(folder):
    def encode(name, tensor):
        if not name.endswith("_proj.weight"):
            return {name: tensor}
        codes, state = bitsandbytes.functional.quantize_4bit(tensor, blocksize=64, compress_statistics=True,
                                                             quant_type="nf4")
        return {name: codes, **{f"{name}.{key}": value for key, value in state.as_dict(packed=True).items()}}

    file = folder.path / "model" / "model.safetensors"
    tensors = {}
    for name, tensor in load_file(file).items():
        tensors.update(encode(name, tensor))
    save_file(tensors, file, metadata={"format": "pt"})
    config = folder.path / "model" / "config.json"
    quantization = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
                    "bnb_4bit_use_double_quant": True}
    config.write_text(json.dumps({**json.loads(config.read_text()), "quantization_config": quantization}))
    code, _, err = program.packtrain("train", folder.config, *SETTINGS, *STILL, "adapter.init=loftq", "model.base=nf4")
    assert code == 64
    assert "adapter.init: loftq" in err

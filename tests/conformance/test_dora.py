"""Runs of DoRA are those of peft in float32: initial magnitudes, losses and weights of training, exports.

test_adapters.py has logits and gradients for every family.
"""

import shutil

import pytest
import torch
from comparison import assert_equal, tensors_of
from peft import LoraConfig, PeftModel, get_peft_model
from peft_training import NAMES, OPTIONS, SETTINGS, STILL, TRAINS, Folder, in_nf4, make_model, our_losses, peft_losses

DORA = [*SETTINGS, "adapter.use_dora=true"]
MAGNITUDE = ".lora_magnitude_vector"


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path, make_model())


def peft_model(model):
    torch.manual_seed(2)
    return get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **OPTIONS, target_modules=NAMES, use_dora=True))


def with_random_values(adapted):
    """B is not zero and no magnitude is the norm of its row."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if ".lora_B." in name:
                parameter.copy_(0.2 * noise)
            elif MAGNITUDE in name:
                parameter.mul_(1 + 0.1 * noise)
    return adapted


def magnitudes_of(path):
    tensors = tensors_of(path)
    found = {name.removeprefix("base_model.model.").removesuffix(MAGNITUDE): tensor
             for name, tensor in tensors.items() if name.endswith(MAGNITUDE)}
    assert len(found) == 2 * len(NAMES)
    return found


def decoded_model(folder):
    """The model with the values that its weights in NF4 decode to."""
    model = folder.model()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("_proj.weight"):
                parameter.copy_(in_nf4(parameter.detach()))
    return model


def test_magnitudes_begin_as_those_of_peft(folder):
    folder.train(*DORA, *STILL)
    adapted = peft_model(folder.model())
    adapted.save_pretrained(folder.path / "theirs")
    assert_equal(magnitudes_of(folder.export("ours")), magnitudes_of(folder.path / "theirs"))
    assert our_losses(folder.path / "run")[0] == pytest.approx(folder.loss(folder.model()).item(), rel=1e-5)


def test_training_from_pissa_has_the_magnitudes_and_losses_of_peft(folder):
    torch.manual_seed(2)
    adapted = get_peft_model(folder.model(), LoraConfig(task_type="CAUSAL_LM", **OPTIONS, target_modules=NAMES,
                                                        use_dora=True, init_lora_weights="pissa"))
    theirs = {name.removeprefix("base_model.model.").removesuffix(f"{MAGNITUDE}.default.weight"): tensor.detach().clone()
              for name, tensor in adapted.named_parameters() if MAGNITUDE in name}
    folder.train(*DORA, *STILL, "adapter.init=pissa")
    assert_equal(magnitudes_of(folder.export("still")), theirs)
    shutil.rmtree(folder.path / "run")
    losses = our_losses(folder.train(*DORA, *TRAINS, "adapter.init=pissa"))
    assert losses == pytest.approx(peft_losses(folder, adapted), rel=1e-4)
    trained = PeftModel.from_pretrained(folder.model(), folder.export("peft")).eval()
    with torch.no_grad():
        evaluated = folder.evaluate(*DORA, "adapter.init=pissa")
        assert folder.loss(trained).item() == pytest.approx(evaluated, rel=1e-5)
    merged = tensors_of(folder.export("merged", "--merge"))
    wanted = trained.merge_and_unload().state_dict()
    assert all(tensor.allclose(wanted[name], rtol=1e-4, atol=1e-5) for name, tensor in merged.items())


def test_magnitudes_of_loftq_are_those_of_weight_and_update(folder):
    folder.train(*DORA, *STILL, "adapter.init=loftq", "model.base=nf4")
    weights, adapter = tensors_of(folder.path / "model"), tensors_of(folder.export("ours"))
    for module, magnitudes in magnitudes_of(folder.path / "ours").items():
        a, b = (adapter[f"base_model.model.{module}.lora_{matrix}.weight"] for matrix in "AB")
        scale = (5 if module.endswith("up_proj") else 6) / a.shape[0]
        whole = in_nf4(weights[f"{module}.weight"]) + scale * b @ a
        assert magnitudes.allclose(whole.norm(dim=1), rtol=1e-5), module


@pytest.mark.parametrize("base", ["bf16", "nf4"])
def test_training_from_a_peft_folder_has_the_losses_and_weights_of_peft(folder, base):
    adapted = with_random_values(peft_model(folder.model() if base == "bf16" else decoded_model(folder)))
    adapted.save_pretrained(folder.path / "start")
    losses = our_losses(folder.train(f"adapter.path={folder.path / 'start'}", f"model.base={base}", *TRAINS))
    assert losses == pytest.approx(peft_losses(folder, adapted), rel=1e-4)
    assert losses[-1] < losses[0] - 0.05
    adapted.save_pretrained(folder.path / "end")
    ours, theirs = tensors_of(folder.export("ours")), tensors_of(folder.path / "end")
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        # AdamW divides a gradient near zero by its size, so that rounding is not small there.
        assert (ours[name] - tensor).abs().mean() < 1e-3 * tensor.abs().mean(), name


def test_magnitudes_over_nf4_are_those_of_the_decoded_weights(folder):
    folder.train(*DORA, *STILL, "model.base=nf4")
    weights = tensors_of(folder.path / "model")
    for module, magnitudes in magnitudes_of(folder.export("ours")).items():
        assert magnitudes.allclose(in_nf4(weights[f"{module}.weight"]).norm(dim=1), rtol=1e-5), module


def test_peft_loads_and_merges_a_trained_adapter(folder):
    folder.train(*DORA, *TRAINS)
    evaluated = folder.evaluate(*DORA)
    adapted = PeftModel.from_pretrained(folder.model(), folder.export("peft")).eval()
    with torch.no_grad():
        assert folder.loss(adapted).item() == pytest.approx(evaluated, rel=1e-5)
    theirs = adapted.merge_and_unload().state_dict()
    assert_equal(tensors_of(folder.export("merged", "--merge")),
                 {name: tensor for name, tensor in theirs.items() if not name.endswith("rotary_emb.inv_freq")})

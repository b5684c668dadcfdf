"""Folders with weights as 8-bit floats and a scale for each block of 128 x 128, as DeepSeek-V3 is published. The test
writes the codes, and decodes them by the formula."""

import pytest
import torch
from hf_folders import change_weights, roundtrip, save_llama, save_model, tensors_of
from transformers import DeepseekV3Config

LARGEST = 448.0
SCALE = "_scale_inv"


def of_blocks(tensor):
    """Each row and column's block, as indices of the scales."""
    rows, columns = tensor.shape
    return (torch.arange(rows) // 128)[:, None], (torch.arange(columns) // 128)[None, :]


def coded(tensor):
    """(codes, scales) of a matrix."""
    rows, columns = of_blocks(tensor)
    scales = torch.zeros(rows.max() + 1, columns.max() + 1)
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            scales[i, j] = tensor[128 * i:128 * i + 128, 128 * j:128 * j + 128].abs().max().float() / LARGEST
    return (tensor.float() / scales[rows, columns]).to(torch.float8_e4m3fn), scales


def decoded(codes, scales):
    rows, columns = of_blocks(codes)
    return (codes.float() * scales[rows, columns]).bfloat16()


def is_coded(name, tensor):
    return tensor.ndim == 2 and "_proj" in name


def code_weights(tensors):
    for name in [name for name, tensor in tensors.items() if is_coded(name, tensor)]:
        tensors[name], tensors[name + SCALE] = coded(tensors[name])


def expected(folder):
    """What the coded folder stands for."""
    tensors = tensors_of(folder)
    scales = {name: tensors.pop(name) for name in list(tensors) if name.endswith(SCALE)}
    return {name: decoded(tensor, scales[name + SCALE]) if name + SCALE in scales else tensor
            for name, tensor in tensors.items()}


def assert_decoded(source, target):
    ours, wanted = tensors_of(target), expected(source)
    assert ours.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(ours[name], tensor), name


@pytest.mark.parametrize("ranks", [1, 3])
def test_weights_of_deepseek_v3_are_decoded(tmp_path, ranks):
    config = DeepseekV3Config(
        vocab_size=96, hidden_size=160, intermediate_size=300, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, q_lora_rank=130, kv_lora_rank=140, qk_nope_head_dim=40, qk_rope_head_dim=16,
        v_head_dim=48, n_routed_experts=3, num_experts_per_tok=2, moe_intermediate_size=129, n_group=1, topk_group=1,
        first_k_dense_replace=1)
    source = save_model(tmp_path / "in", config)
    change_weights(source, code_weights)
    assert sum(name.endswith(SCALE) for name in tensors_of(source)) == 25
    roundtrip(source, tmp_path / "out", ranks=ranks)
    assert_decoded(source, tmp_path / "out")


@pytest.mark.parametrize("master", ["float32", "bfloat16"])
def test_rows_that_are_merged_with_others_are_decoded(tmp_path, master):
    source = save_llama(tmp_path / "in", hidden_size=192, intermediate_size=257)
    change_weights(source, code_weights)
    roundtrip(source, tmp_path / "out", ranks=7, master=master)
    assert_decoded(source, tmp_path / "out")


def test_every_code_is_its_number(tmp_path):
    """All codes but those of NaN, at scales that no power of two is."""
    source = save_llama(tmp_path / "in", hidden_size=192, intermediate_size=257)
    numbers = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    finite = numbers[~numbers.float().isnan()]
    name = "model.layers.0.mlp.down_proj.weight"

    def write(tensors):
        shape = tensors[name].shape
        tensors[name] = finite.view(torch.uint8).repeat(1000)[:shape.numel()].view(shape).view(torch.float8_e4m3fn)
        tensors[name + SCALE] = torch.tensor([[0.3, 1.7, 1e-3], [3e4, 0.7, 5e-6]])

    change_weights(source, write)
    roundtrip(source, tmp_path / "out")
    assert_decoded(source, tmp_path / "out")


NAME = "model.layers.1.mlp.up_proj.weight"


@pytest.mark.parametrize("damage, message", [
    (lambda t: t.pop(NAME + SCALE), f"tensor '{NAME}' has dtype F8_E4M3 and no scales '{NAME}{SCALE}'"),
    (lambda t: t.update({NAME + SCALE: torch.ones(1, 1)}),
     f"tensor '{NAME}' has dtype F8_E4M3 and its scales have shape [1, 1], want float32 [3, 2]"),
    (lambda t: t.update({NAME + SCALE: torch.ones(3, 2).bfloat16()}), "want float32 [3, 2]"),
    (lambda t: t.update({NAME + SCALE: torch.full((3, 2), float("inf"))}), f"tensor '{NAME}' has a weight that is not"),
    (lambda t: t.update({NAME: t[NAME].bfloat16()}), f"tensor '{NAME}{SCALE}' belongs to no parameter"),
], ids=["missing", "shape", "bfloat16", "infinite", "plain"])
def test_scales_that_do_not_fit_are_refused(tmp_path, damage, message):
    source = save_llama(tmp_path / "in", hidden_size=192, intermediate_size=257)

    def change(tensors):
        code_weights(tensors)
        damage(tensors)

    change_weights(source, change)
    assert message in roundtrip(source, tmp_path / "out", exit_code=66)
    assert not (tmp_path / "out").exists()

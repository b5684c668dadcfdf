"""Published gpt-oss folders: experts in MXFP4, decoded as transformers decodes them."""

import json

import program
import pytest
import torch
from comparison import assert_same_bytes, tensors_of
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, GptOssConfig, Mxfp4Config

VOCABULARY = 83
CODED = {"quant_method": "mxfp4",
         "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                    "model.embed_tokens", "lm_head"]}


def coded(tensor):
    """Random codes of a tensor [experts, in, out]: every element and scales of 2^-9 to 2^-4."""
    experts, inner, outer = tensor.shape
    rows = (experts, outer, inner // 32)
    return {"blocks": torch.randint(0, 256, (*rows, 16), dtype=torch.uint8),
            "scales": torch.randint(118, 124, rows, dtype=torch.uint8)}


def code_folder(folder, change=lambda tensors: None, **quantization):
    """Gives the folder's experts in MXFP4, of which `change` may spoil something."""
    tensors = tensors_of(folder)
    for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        for part, codes in coded(tensors.pop(name)).items():
            tensors[f"{name}_{part}"] = codes
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {**CODED, **quantization}
    (folder / "config.json").write_text(json.dumps(config))


@pytest.fixture
def model(tmp_path):
    torch.manual_seed(0)
    config = GptOssConfig(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96,
                          num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                          head_dim=16, num_local_experts=3, num_experts_per_tok=2,
                          tie_word_embeddings=False)
    AutoModelForCausalLM.from_config(config).bfloat16().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def config(tmp_path):
    return program.prepare_run(tmp_path, VOCABULARY)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_published_folder_is_trained_and_exported_in_bfloat16(model, config, tmp_path, ranks):
    code_folder(model)
    decoded = AutoModelForCausalLM.from_pretrained(
        model, quantization_config=Mxfp4Config(dequantize=True), dtype=torch.bfloat16)
    program.finished("train", config, "optimizer.learning_rate=0", ranks=ranks)
    program.finished("export", tmp_path / "run", "--out", tmp_path / "out", "--dtype", "bfloat16")
    assert_same_bytes(tensors_of(tmp_path / "out"), decoded.state_dict())
    assert "quantization_config" not in json.loads((tmp_path / "out/config.json").read_text())
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")


def without_scales(tensors):
    del tensors["model.layers.1.mlp.experts.down_proj_scales"]


def with_half_of_the_blocks(tensors):
    name = "model.layers.0.mlp.experts.gate_up_proj_blocks"
    tensors[name] = tensors[name][..., :8].clone()


def with_scales_that_are_numbers(tensors):
    name = "model.layers.0.mlp.experts.gate_up_proj_scales"
    tensors[name] = tensors[name].float()


@pytest.mark.parametrize(("damage", "words"), [
    (without_scales, ["no tensor 'model.layers.1.mlp.experts.down_proj_scales'"]),
    (with_half_of_the_blocks, ["gate_up_proj_blocks' has shape [3, 192, 2, 8], want [3, 192, 2, 16]"]),
    (with_scales_that_are_numbers, ["gate_up_proj_scales' is not uint8"])])
def test_damaged_codes_are_refused(model, config, damage, words):
    code_folder(model, damage)
    code, _, err = program.packtrain("train", config)
    assert code == 66, err
    assert all(word in err for word in words), err


def test_other_quantizations_are_refused_by_name(model, config):
    code_folder(model, quant_method="fp8")
    code, _, err = program.packtrain("train", config)
    assert code == 64, err
    assert "'quantization_config.quant_method' is \"fp8\", but only \"mxfp4\"" in err, err

"""Import and export of Hugging Face folders, with `transformers` as the oracle.

PACKTRAIN_HF_ROUNDTRIP names the program that imports a folder and exports what it read.
"""

import json
import os
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

ROUNDTRIP = os.environ["PACKTRAIN_HF_ROUNDTRIP"]

LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 50000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def save_llama(folder, dtype=torch.bfloat16, max_shard_size="5GB", **changes):
    torch.manual_seed(0)
    config = LlamaConfig(**{
        "vocab_size": 96, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": False, **changes})
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():  # norms and biases too
        parameter.data.normal_(std=0.3)
    model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
    return folder


def roundtrip(source, target, ranks=3, master="float32", export="bfloat16", max_shard_bytes=10**9,
              tokenizer="", exit_code=0):
    result = subprocess.run(
        [ROUNDTRIP, source, target, str(ranks), master, export, str(max_shard_bytes), tokenizer],
        capture_output=True, text=True, timeout=100)
    assert result.returncode == exit_code, result.stderr
    return result.stderr


def tensors_of(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(load_file(file))
    return tensors


def assert_same_bytes(source, target):
    ours, theirs = tensors_of(target), tensors_of(source)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype and ours[name].shape == tensor.shape, name
        assert torch.equal(ours[name].view(torch.uint8), tensor.view(torch.uint8)), name


def logits_of(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(torch.arange(96).reshape(2, 48)).logits


@pytest.mark.parametrize("changes, master", [
    ({}, "float32"), ({}, "bfloat16"), ({"tie_word_embeddings": True}, "float32"),
    ({"attention_bias": True, "mlp_bias": True}, "float32"),
    ({"num_key_value_heads": 6, "head_dim": 8}, "float32"),
    ({"rope_parameters": LLAMA3_ROPE}, "float32")],
    ids=["plain", "frozen", "tied", "biases", "head_dim", "llama3_rope"])
def test_bfloat16_weights_come_back_byte_for_byte(tmp_path, changes, master):
    source = save_llama(tmp_path / "in", **changes)
    roundtrip(source, tmp_path / "out", master=master)
    assert_same_bytes(source, tmp_path / "out")
    assert torch.equal(logits_of(tmp_path / "out"), logits_of(source))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_other_types_come_back_exactly_as_float32(tmp_path, dtype):
    source = save_llama(tmp_path / "in", dtype=dtype)
    roundtrip(source, tmp_path / "out", export="float32")
    ours = tensors_of(tmp_path / "out")
    for name, tensor in tensors_of(source).items():
        assert torch.equal(ours[name], tensor.float()), name
    assert torch.equal(logits_of(tmp_path / "out"), logits_of(source))
    assert json.loads((tmp_path / "out/config.json").read_text())["dtype"] == "float32"


@pytest.mark.parametrize("ranks", [1, 7])
def test_any_number_of_ranks_reads_the_same(tmp_path, ranks):
    source = save_llama(tmp_path / "in")
    roundtrip(source, tmp_path / "out", ranks=ranks)
    assert_same_bytes(source, tmp_path / "out")


def test_folders_of_several_files_are_read_and_written(tmp_path):
    source = save_llama(tmp_path / "in", max_shard_size="10KB")
    assert len(list(source.glob("*.safetensors"))) > 2
    roundtrip(source, tmp_path / "out", max_shard_bytes=10_000)
    assert_same_bytes(source, tmp_path / "out")
    files = sorted((tmp_path / "out").glob("*.safetensors"))
    assert [file.name for file in files] == [
        f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))]
    assert all(sum(t.nbytes for t in load_file(file).values()) <= 10_000 for file in files)
    index = json.loads((tmp_path / "out/model.safetensors.index.json").read_text())
    total = sum(tensor.nbytes for tensor in tensors_of(source).values())
    assert index["metadata"]["total_size"] == total
    assert all(name in load_file(tmp_path / "out" / file)
               for name, file in index["weight_map"].items())
    assert torch.equal(logits_of(tmp_path / "out"), logits_of(source))


def change_weights(source, change):
    tensors = tensors_of(source)
    change(tensors)
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})


def test_a_stored_head_of_a_tied_model_and_rotary_tables_are_ignored(tmp_path):
    source = save_llama(tmp_path / "in", tie_word_embeddings=True)
    before = tensors_of(source)
    change_weights(source, lambda tensors: tensors.update({
        "lm_head.weight": tensors["model.embed_tokens.weight"].clone(),
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2)}))
    roundtrip(source, tmp_path / "out")
    assert tensors_of(tmp_path / "out").keys() == before.keys()


@pytest.mark.parametrize("change, message", [
    (lambda t: t.pop("model.layers.1.mlp.up_proj.weight"),
     "has no tensor 'model.layers.1.mlp.up_proj.weight'"),
    (lambda t: t.update({"model.norm.weight": torch.ones(23)}),
     "tensor 'model.norm.weight' has shape [23], want [24]"),
    (lambda t: t.update({"model.adapter.weight": torch.ones(2)}),
     "tensor 'model.adapter.weight' belongs to no parameter"),
    (lambda t: t.update({"model.norm.weight": torch.ones(24, dtype=torch.int32)}),
     "tensor 'model.norm.weight' is not float32, float16 or bfloat16"),
], ids=["missing", "shape", "unknown", "type"])
def test_tensors_that_do_not_fit_are_named(tmp_path, change, message):
    source = save_llama(tmp_path / "in")
    change_weights(source, change)
    assert message in roundtrip(source, tmp_path / "out", exit_code=66)
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.tmp").exists()


def test_a_folder_without_weights_is_a_configuration_error(tmp_path):
    source = save_llama(tmp_path / "in")
    (source / "model.safetensors").unlink()
    assert "has neither model.safetensors nor" in roundtrip(source, tmp_path / "out", exit_code=64)


@pytest.mark.parametrize("weight_map, code, message", [
    ({"lm_head.weight": "../in/model.safetensors"}, 66, "../in/model.safetensors"),
    ({"lm_head.weight": "model-00009-of-00009.safetensors"}, 64, "no such file"),
    ({"lm_head.weight": 3}, 66, "the file of 'lm_head.weight'"),
    ([], 66, "no object 'weight_map'"),
])
def test_a_bad_index_is_named(tmp_path, weight_map, code, message):
    source = save_llama(tmp_path / "in")
    (source / "model.safetensors").unlink()
    (source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert message in roundtrip(source, tmp_path / "out", exit_code=code)


def test_tokenizer_files_are_copied_and_model_files_are_not(tmp_path):
    source = save_llama(tmp_path / "in")
    (source / "tokenizer.json").write_text("{}")
    (source / "merges.txt").write_text("")
    (source / "pytorch_model.bin").write_text("pickle")
    (source / "original").mkdir()
    roundtrip(source, tmp_path / "out", tokenizer=str(source))
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "config.json", "generation_config.json", "merges.txt", "model.safetensors",
        "tokenizer.json"}
    assert json.loads((tmp_path / "out/config.json").read_text())["dtype"] == "bfloat16"


def test_an_export_never_replaces_a_folder(tmp_path):
    source = save_llama(tmp_path / "in")
    (tmp_path / "out").mkdir()
    assert "exists already" in roundtrip(source, tmp_path / "out", exit_code=66)
    assert not list((tmp_path / "out").iterdir())

"""Import and export of Hugging Face folders, with `transformers` as the oracle."""

import json

import pytest
import torch
from hf_folders import change_weights, roundtrip, save_llama, save_model, tensors_of
from safetensors.torch import load_file
from transformers import (AutoModelForCausalLM, FalconConfig, Glm4MoeConfig, GPT2Config, GPTNeoXConfig, MixtralConfig,
                          Phi3Config, Qwen3NextConfig, StableLmConfig)

LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 50000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


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


def test_a_stored_head_of_a_tied_model_and_rotary_tables_are_ignored(tmp_path):
    source = save_llama(tmp_path / "in", tie_word_embeddings=True)
    before = tensors_of(source)
    change_weights(source, lambda tensors: tensors.update({
        "lm_head.weight": tensors["model.embed_tokens.weight"].clone(),
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2)}))
    roundtrip(source, tmp_path / "out")
    assert tensors_of(tmp_path / "out").keys() == before.keys()


def test_causal_masks_of_pythia_are_ignored(tmp_path):
    source = save_model(tmp_path / "in", GPTNeoXConfig(**SIZES, intermediate_size=40))
    roundtrip(source, tmp_path / "plain")
    change_weights(source, lambda tensors: tensors.update({
        "gpt_neox.layers.0.attention.bias": torch.ones(1, 1, 4, 4, dtype=torch.bool),
        "gpt_neox.layers.0.attention.masked_bias": torch.tensor(-1e9)}))
    roundtrip(source, tmp_path / "out")
    assert_same_bytes(tmp_path / "plain", tmp_path / "out")


def test_causal_masks_of_gpt2_are_ignored(tmp_path):
    source = save_model(tmp_path / "in", GPT2)
    change_weights(source, lambda tensors: tensors.update({
        "transformer.h.0.attn.bias": torch.ones(1, 1, 4, 4), "transformer.h.0.attn.masked_bias": torch.tensor(-1e4)}))
    roundtrip(source, tmp_path / "out")
    assert tensors_of(source).keys() - tensors_of(tmp_path / "out").keys() == {
        "transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias"}


def test_layers_that_predict_further_tokens_are_left_out(tmp_path):
    source = save_model(tmp_path / "in", GLM4_MOE)
    roundtrip(source, tmp_path / "plain")
    change_weights(source, lambda tensors: tensors.update({
        "model.layers.2.eh_proj.weight": torch.ones(48, 96), "model.layers.2.mlp.gate.weight": torch.ones(7, 48),
        "model.layers.2.shared_head.norm.weight": torch.ones(48)}))
    roundtrip(source, tmp_path / "out")
    assert_same_bytes(tmp_path / "plain", tmp_path / "out")
    change_weights(source, lambda tensors: tensors.pop("model.layers.2.eh_proj.weight"))
    assert "belongs to no parameter" in roundtrip(source, tmp_path / "other", exit_code=66)


def test_a_module_that_predicts_further_tokens_is_left_out(tmp_path):
    source = save_model(tmp_path / "in", QWEN3_NEXT)
    roundtrip(source, tmp_path / "plain")
    change_weights(source, lambda tensors: tensors.update({"mtp.layers.0.mlp.gate.weight": torch.ones(7, 48),
                                                           "mtp.norm.weight": torch.ones(48)}))
    roundtrip(source, tmp_path / "out")
    assert_same_bytes(tmp_path / "plain", tmp_path / "out")


def test_the_bias_of_a_choice_stays_float32(tmp_path):
    source = save_model(tmp_path / "in", GLM4_MOE)
    bias = torch.linspace(-1, 1, 7) / 3
    change_weights(source, lambda tensors: tensors.update({CHOICE_BIAS: bias}))
    roundtrip(source, tmp_path / "out")
    assert_same_bytes(source, tmp_path / "out")
    assert tensors_of(tmp_path / "out")[CHOICE_BIAS].equal(bias)


def test_a_folder_without_weights_is_a_configuration_error(tmp_path):
    source = save_llama(tmp_path / "in")
    (source / "model.safetensors").unlink()
    assert "has neither model.safetensors nor" in roundtrip(source, tmp_path / "out", exit_code=64)


SIZES = {"vocab_size": 96, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 6}
KEY_HEADS = {"num_key_value_heads": 2, "intermediate_size": 40}
CHOICE_BIAS = "model.layers.1.mlp.gate.e_score_correction_bias"
GLM4_MOE = Glm4MoeConfig(**SIZES, **KEY_HEADS, n_routed_experts=7, num_experts_per_tok=3, moe_intermediate_size=20)
QWEN3_NEXT = Qwen3NextConfig(
    **SIZES, **KEY_HEADS, head_dim=12, num_experts=7, num_experts_per_tok=3, moe_intermediate_size=20,
    shared_expert_intermediate_size=24, linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=5,
    linear_value_head_dim=7, layer_types=["linear_attention", "full_attention"], partial_rotary_factor=0.5)
GPT2 = GPT2Config(vocab_size=96, n_embd=48, n_layer=2, n_head=6, n_positions=60, attn_pdrop=0.0, embd_pdrop=0.0,
                  resid_pdrop=0.0)
LAYOUTS = {
    "fused": Phi3Config(**SIZES, **KEY_HEADS, pad_token_id=None),
    "interleaved": FalconConfig(**SIZES, new_decoder_architecture=True, num_kv_heads=2, bias=True),
    "experts": MixtralConfig(**SIZES, **KEY_HEADS, num_local_experts=3),
    "norms_of_heads": StableLmConfig(**SIZES, **KEY_HEADS, qk_layernorm=True),
    "transposed": GPT2,
    "by_key_heads": QWEN3_NEXT,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_layouts_come_back_in_several_files(tmp_path, layout):
    source = save_model(tmp_path / "in", LAYOUTS[layout], max_shard_size="20KB")
    roundtrip(source, tmp_path / "out", max_shard_bytes=20_000)
    assert len(list((tmp_path / "out").glob("model-*-of-*.safetensors"))) > 2
    assert_same_bytes(source, tmp_path / "out")
    # Where a tensor is in a file changes the order of sums in its products.
    torch.testing.assert_close(logits_of(tmp_path / "out"), logits_of(source))


@pytest.mark.parametrize("layout", ["fused", "interleaved", "transposed"])
def test_names_without_the_models_prefix_are_read(tmp_path, layout):
    source = save_model(tmp_path / "in", LAYOUTS[layout])
    roundtrip(source, tmp_path / "out")
    prefixes = ("model.", "transformer.")
    change_weights(source, lambda tensors: [
        tensors.update({name.split(".", 1)[1]: tensors.pop(name)})
        for name in list(tensors) if name.startswith(prefixes)])
    assert not any(name.startswith(prefixes) for name in tensors_of(source))
    roundtrip(source, tmp_path / "again")
    assert_same_bytes(tmp_path / "out", tmp_path / "again")


def test_experts_stacked_in_one_tensor_are_read(tmp_path):
    source = save_model(tmp_path / "in", LAYOUTS["experts"])
    roundtrip(source, tmp_path / "out")

    def stack(tensors):
        for layer in range(2):
            old, new = (f"model.layers.{layer}.{name}" for name in ("block_sparse_moe.", "mlp."))
            w1, w2, w3 = ([tensors.pop(f"{old}experts.{e}.w{i}.weight") for e in range(3)]
                          for i in (1, 2, 3))
            tensors[new + "gate.weight"] = tensors.pop(old + "gate.weight")
            tensors[new + "experts.down_proj"] = torch.stack(w2)
            tensors[new + "experts.gate_up_proj"] = torch.stack(
                [torch.cat(pair) for pair in zip(w1, w3)])

    change_weights(source, stack)
    roundtrip(source, tmp_path / "again")
    assert_same_bytes(tmp_path / "out", tmp_path / "again")


def test_tokenizer_files_are_copied_and_model_files_are_not(tmp_path):
    source = save_llama(tmp_path / "in")
    (source / "tokenizer.json").write_text("{}")
    (source / "merges.txt").write_text("")
    (source / "pytorch_model.bin").write_text("pickle")
    (source / "original").mkdir()
    (source / "additional_chat_templates").mkdir()
    (source / "additional_chat_templates/tools.jinja").write_text("{{ tools }}")
    roundtrip(source, tmp_path / "out", tokenizer=str(source))
    template = "additional_chat_templates/tools.jinja"
    assert (tmp_path / "out" / template).read_text() == (source / template).read_text()
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "additional_chat_templates", "config.json", "generation_config.json", "merges.txt", "model.safetensors",
        "tokenizer.json"}
    assert json.loads((tmp_path / "out/config.json").read_text())["dtype"] == "bfloat16"


@pytest.mark.parametrize("there", [True, False], ids=["no_tokenizer", "no_folder"])
def test_a_folder_without_a_tokenizer_is_refused_before_anything_is_made(tmp_path, there):
    source = save_llama(tmp_path / "in")
    if there:
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes/README.md").write_text("no tokenizer")
    message = roundtrip(source, tmp_path / "new/out", tokenizer=str(tmp_path / "notes"), exit_code=66)
    assert "has no tokenizer" in message if there else "cannot list the tokenizer's files" in message
    assert f"{tmp_path}/notes: " in message and "--tokenizer wants" in message
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("end", ["/", "/.", "//./"])
def test_a_folder_may_be_named_with_slashes(tmp_path, end):
    source = save_llama(tmp_path / "in")
    roundtrip(source, f"{tmp_path}/out{end}")
    assert_same_bytes(source, tmp_path / "out")


def test_an_export_never_replaces_a_folder(tmp_path):
    source = save_llama(tmp_path / "in")
    (tmp_path / "out").mkdir()
    assert "exists already" in roundtrip(source, tmp_path / "out", exit_code=66)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_new_tokens_start_as_the_mean_of_the_old_ones(tmp_path, tied, ranks):
    source = save_llama(tmp_path / "in", tie_word_embeddings=tied)
    roundtrip(source, tmp_path / "out", ranks=ranks, export="float32", vocabulary=103)
    old, new = tensors_of(source), tensors_of(tmp_path / "out")
    assert old.keys() == new.keys()
    resized = {"model.embed_tokens.weight"} | (set() if tied else {"lm_head.weight"})
    for name, tensor in old.items():
        assert torch.equal(new[name][:len(tensor)], tensor.float()), name
        assert len(new[name]) == len(tensor) + (7 if name in resized else 0)
    for name in resized:
        mean = old[name].double().mean(0).float()
        assert torch.equal(new[name][96:], mean.expand(7, -1)), name
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert model.config.vocab_size == 103 and model.lm_head.weight.shape[0] == 103

"""Tests changes of a folder before training: added tokens, dropouts left out."""

import json

import program
import pytest
import torch
from comparison import tensors_of
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, Gemma3nTextConfig, LlamaConfig

VOCABULARY = 75
TOKENIZER = 83  # tokens of the stores


def save_llama(folder, **changes):
    torch.manual_seed(0)
    config = LlamaConfig(**{
        "vocab_size": VOCABULARY, "hidden_size": 24, "intermediate_size": 40,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 256, "tie_word_embeddings": False, **changes})
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


@pytest.fixture
def config(tmp_path):
    return program.prepare_run(tmp_path, TOKENIZER)


def refused(code, parts, *words):
    found, _, err = program.packtrain(*words)
    assert found == code, err
    for part in parts:
        assert part in err


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(config, tmp_path):
    save_llama(tmp_path / "model")
    refused(65, ["vocabulary of 83 tokens, the model one of 75", "model.resize_vocabulary: 83"],
            "train", config)
    refused(65, ["vocabulary of 83 tokens, the model one of 80"],
            "train", config, "model.resize_vocabulary=80")
    refused(64, ["model.resize_vocabulary is 70", "has 75 tokens"],
            "train", config, "model.resize_vocabulary=70")


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("tied", [False, True])
def test_added_tokens_start_as_the_mean_and_are_exported(config, tmp_path, tied, ranks):
    save_llama(tmp_path / "model", tie_word_embeddings=tied)
    program.finished("train", config, "model.resize_vocabulary=83", "optimizer.learning_rate=0",
                     ranks=ranks)
    program.finished("export", tmp_path / "run", "--dtype", "float32", "--out", tmp_path / "out")
    old, new = tensors_of(tmp_path / "model"), tensors_of(tmp_path / "out")
    assert old.keys() == new.keys()
    for name, tensor in old.items():
        assert torch.equal(new[name][:len(tensor)], tensor), name
        if len(tensor) == VOCABULARY:
            mean = tensor.double().mean(0).float()
            assert torch.equal(new[name][VOCABULARY:], mean.expand(8, -1)), name
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").lm_head.weight.shape[0] == TOKENIZER


def test_added_tokens_have_inputs_of_layers(config, tmp_path):
    """Those of Gemma 3n have fewer rows than the embedding before, and as many after."""
    input_rows = 70
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(Gemma3nTextConfig(
        vocab_size=VOCABULARY, vocab_size_per_layer_input=input_rows, hidden_size=24, intermediate_size=40,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, hidden_size_per_layer_input=6,
        num_kv_shared_layers=0, laurel_rank=4, altup_num_inputs=2, pad_token_id=None)).save_pretrained(tmp_path / "model")
    program.finished("train", config, "model.resize_vocabulary=83", "optimizer.learning_rate=0")
    program.finished("export", tmp_path / "run", "--dtype", "float32", "--out", tmp_path / "out")
    name = "model.embed_tokens_per_layer.weight"
    old, new = tensors_of(tmp_path / "model")[name], tensors_of(tmp_path / "out")[name]
    assert torch.equal(new[:input_rows], old)
    assert torch.equal(new[input_rows:], old.double().mean(0).float().expand(83 - input_rows, -1))
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert loaded.config.vocab_size_per_layer_input == loaded.config.vocab_size == TOKENIZER


def test_a_run_with_added_tokens_resumes_and_its_checkpoint_can_be_trained(config, tmp_path):
    save_llama(tmp_path / "model")
    resized = "model.resize_vocabulary=83"
    program.finished("train", config, resized, "run.max_steps=1", "checkpoint.save_steps=1")
    program.finished("train", config, resized, "run.max_steps=2", ranks=2)
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines if "grad_norm" in line] == [1, 2]
    checkpoint = f"model.path={tmp_path}/run/checkpoints/step-2"
    program.finished("evaluate", config, checkpoint)
    program.finished("evaluate", config, checkpoint, resized)
    refused(64, ["has 83 tokens and is a checkpoint"],
            "evaluate", config, checkpoint, "model.resize_vocabulary=90")


def test_dropouts_are_refused_by_name_until_left_out(config, tmp_path):
    save_llama(tmp_path / "model", vocab_size=TOKENIZER, attention_dropout=0.1)
    refused(64, ["'attention_dropout' is 0.1", "model.dropout: 0", str(tmp_path / "model")],
            "train", config)
    program.finished("train", config, "model.dropout=0")
    program.finished("export", tmp_path / "run", "--out", tmp_path / "out")
    assert json.loads((tmp_path / "out/config.json").read_text())["attention_dropout"] == 0


def change_config(tmp_path, **changes):
    file = tmp_path / "model/config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def loss_of(config, *words):
    return json.loads(program.finished("evaluate", config, "--json", *words))["loss"]


def test_a_left_over_quantization_is_decided_by_the_tensors(config, tmp_path):
    save_llama(tmp_path / "model", vocab_size=TOKENIZER)
    plain = loss_of(config)
    change_config(tmp_path, quantization_config={"quant_method": "bitsandbytes", "load_in_8bit": True})
    assert loss_of(config) == plain
    tensors = tensors_of(tmp_path / "model")
    tensors["model.norm.weight"] = torch.ones(24, dtype=torch.uint8)
    save_file(tensors, tmp_path / "model/model.safetensors", metadata={"format": "pt"})
    refused(64, ["'quantization_config'", "'model.norm.weight'", "use the unquantized model"],
            "evaluate", config)


def test_keys_are_refused_together_and_left_out_by_name(config, tmp_path):
    save_llama(tmp_path / "model", vocab_size=TOKENIZER)
    plain = loss_of(config)
    change_config(tmp_path, logit_scale=0.5, mup_width=256, private_remark="mine")
    refused(64, ["'logit_scale'", "0.5", "'mup_width'", "256",
                 "model.ignore_keys: [logit_scale, mup_width]"], "evaluate", config)
    assert loss_of(config, "model.ignore_keys=[logit_scale,mup_width]") == plain
    refused(64, ["'logits_scale'", "Did you mean 'logit_scale'"],
            "evaluate", config, "model.ignore_keys=[logits_scale]")


def test_a_prefix_of_all_tensors_is_removed_by_name(config, tmp_path):
    save_llama(tmp_path / "model", vocab_size=TOKENIZER)
    plain = loss_of(config)
    wrapped = {f"_orig_mod.{name}": tensor for name, tensor in tensors_of(tmp_path / "model").items()}
    save_file(wrapped, tmp_path / "model/model.safetensors", metadata={"format": "pt"})
    refused(66, ["all its tensors begin with '_orig_mod.'"], "evaluate", config)
    assert loss_of(config, "model.prefix=_orig_mod.") == plain
    refused(66, ["begin with '_orig_mod.'", "model.prefix: _orig_mod. removes"], "evaluate", config,
            "model.prefix=_orig_mod")
    refused(66, ["does not begin with model.prefix 'module.'"], "evaluate", config, "model.prefix=module.")


def test_an_overlay_that_transformers_would_not_take_is_warned_of(config, tmp_path):
    save_llama(tmp_path / "model", vocab_size=TOKENIZER)
    plain = loss_of(config)
    (tmp_path / "model/model.safetensors").rename(tmp_path / "model/b.safetensors")
    name, tensors = "lm_head.weight", tensors_of(tmp_path / "model")
    save_file({name: torch.zeros_like(tensors[name])}, tmp_path / "model/a.safetensors")
    places = {**dict.fromkeys(tensors, "b.safetensors"), name: "a.safetensors"}
    (tmp_path / "model/model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    code, out, err = program.packtrain("evaluate", config, "--json")
    assert code == 0 and json.loads(out)["loss"] != plain
    assert f"'{name}' is in a.safetensors and in b.safetensors: a.safetensors counts" in err


@pytest.mark.parametrize("name, command", [
    ("Qwen/Tiny-1B@main", "hf download Qwen/Tiny-1B --revision main --local-dir hf/Tiny-1B"),
    ("https://huggingface.co/Qwen/Tiny-1B", "hf download Qwen/Tiny-1B --local-dir hf/Tiny-1B"),
    ("hf://Qwen/Tiny-1B/", "hf download Qwen/Tiny-1B --local-dir hf/Tiny-1B")])
def test_an_address_on_the_hub_is_answered_with_the_download(config, name, command):
    refused(64, ["does not exist", command], "plan", config, f"model.path={name}")


def test_a_run_as_model_path_is_answered_with_its_checkpoint_and_the_export(config, tmp_path):
    save_llama(tmp_path / "model", vocab_size=TOKENIZER)
    run = tmp_path / "runs/first"
    program.finished("train", config, f"run.output={run}")
    export = f"`packtrain export {run} --out {run}-exported`"
    for path in (run, run / "checkpoints"):
        refused(64, [f"{run}/checkpoints/step-1;", export, f"model.path: {run}-exported"],
                "plan", config, f"model.path={path}")
    refused(64, ["It holds runs", export, str(run)], "plan", config, f"model.path={tmp_path / 'runs'}")
    program.finished("export", run, "--out", f"{run}-exported")
    program.finished("plan", config, f"model.path={run}-exported")
    refused(64, [f"It is a file: give its folder, {run}-exported"],
            "plan", config, f"model.path={run}-exported/config.json")


def test_a_name_of_the_hub_is_answered_with_the_download(config):
    refused(64, ["Qwen/Tiny-1B does not exist", "hf download Qwen/Tiny-1B --local-dir hf/Tiny-1B"],
            "plan", config, "model.path=Qwen/Tiny-1B")


def test_a_loss_that_is_not_finite_ends_evaluate_with_an_error_code(config, tmp_path):
    save_llama(tmp_path / "model", vocab_size=TOKENIZER)
    tensors = tensors_of(tmp_path / "model")
    tensors["lm_head.weight"] = torch.full_like(tensors["lm_head.weight"], 3e38)
    save_file(tensors, tmp_path / "model/model.safetensors", metadata={"format": "pt"})
    refused(71, ["the loss is not finite"], "evaluate", config)

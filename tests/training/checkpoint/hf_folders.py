"""Small Hugging Face folders, and the program that imports one and exports what it read
(PACKTRAIN_HF_ROUNDTRIP)."""

import os
import subprocess

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig

ROUNDTRIP = os.environ["PACKTRAIN_HF_ROUNDTRIP"]


def save_model(folder, config, dtype=torch.bfloat16, max_shard_size="5GB"):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():  # norms and biases too
        parameter.data.normal_(std=0.3)
    model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
    return folder


def save_llama(folder, dtype=torch.bfloat16, max_shard_size="5GB", **changes):
    config = LlamaConfig(**{
        "vocab_size": 96, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": False, **changes})
    return save_model(folder, config, dtype, max_shard_size)


def roundtrip(source, target, ranks=3, master="float32", export="bfloat16", max_shard_bytes=10**9,
              tokenizer="", vocabulary=None, exit_code=0):
    arguments = [source, target, ranks, master, export, max_shard_bytes, tokenizer]
    arguments += [] if vocabulary is None else [vocabulary]
    result = subprocess.run([ROUNDTRIP, *map(str, arguments)], capture_output=True, text=True,
                            timeout=100)
    assert result.returncode == exit_code, result.stderr
    return result.stderr


def tensors_of(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(load_file(file))
    return tensors


def change_weights(source, change):
    tensors = tensors_of(source)
    change(tensors)
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})

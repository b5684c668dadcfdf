"""Our decoder computes what transformers' models compute: logits, loss and gradients, float32.

Small random models are saved with save_pretrained and run by logits_tool
(environment variable PACKTRAIN_LOGITS_TOOL), packed; transformers runs one sequence at a time.
"""

import json
import os
import subprocess

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config

SMALL = dict(
    vocab_size=96,
    hidden_size=64,
    intermediate_size=112,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    initializer_range=0.1,
)
LLAMA3 = dict(
    rope_type="llama3",
    rope_theta=10000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=32,
)
FAMILIES = {"llama": LlamaConfig, "mistral": MistralConfig, "qwen2": Qwen2Config}
CASES = {  # a name without a family's in front is of Llama
    "grouped_queries": {},
    "all_heads": dict(num_key_value_heads=4),
    "one_kv_head_wide": dict(num_key_value_heads=1, head_dim=32),
    "tied": dict(tie_word_embeddings=True),
    "biases": dict(attention_bias=True, mlp_bias=True),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
    "linear_rotary": dict(
        rope_parameters=dict(rope_type="linear", rope_theta=500000.0, factor=4.0)
    ),
    "mistral": dict(sliding_window=None, head_dim=24),
    "mistral_window": dict(sliding_window=256),
    "qwen2": {},
    "qwen2_tied": dict(tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=1e6)),
}
LENGTHS = [40, 1, 7, 90]


def make_model(name):
    torch.manual_seed(0)
    config = FAMILIES.get(name.split("_")[0], LlamaConfig)
    model = AutoModelForCausalLM.from_config(config(**{**SMALL, **CASES[name]}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:  # not left at their start values
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model.float().eval()


def reference(model, sequences):
    logits, loss = [], 0.0
    for ids in sequences:
        out = model(ids.unsqueeze(0)).logits[0]
        logits.append(out.detach())
        loss = loss + torch.nn.functional.cross_entropy(out[:-1], ids[1:], reduction="sum")
    loss.backward()
    return torch.cat(logits), loss.detach()


def merged(model, kind):
    """Our parameter's gradient out of transformers' modules."""
    modules = dict(model.named_modules())
    layer, part, leaf = kind
    names = {
        "attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        "attention.output": ["self_attn.o_proj"],
        "attention_norm": ["input_layernorm"],
        "mlp_norm": ["post_attention_layernorm"],
        "mlp.gate_up": ["mlp.gate_proj", "mlp.up_proj"],
        "mlp.down": ["mlp.down_proj"],
    }[part]
    found = [getattr(modules[f"model.layers.{layer}.{name}"], leaf).grad for name in names]
    return torch.cat(found)


def gradient_of(model, name):
    if name == "embed.weight":
        return model.model.embed_tokens.weight.grad
    if name == "final_norm.weight":
        return model.model.norm.weight.grad
    if name == "head.weight":
        return model.lm_head.weight.grad
    parts = name.split(".")
    return merged(model, (int(parts[1]), ".".join(parts[2:-1]), parts[-1]))


def run_tool(folder, sequences, out):
    lengths = ",".join(str(len(ids)) for ids in sequences)
    ids = ",".join(str(i) for sequence in sequences for i in sequence.tolist())
    tool = os.environ["PACKTRAIN_LOGITS_TOOL"]
    done = subprocess.run([tool, folder, lengths, ids, out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return load_file(out)


def assert_close(got, want, name):
    scale = want.abs().max().item()
    error = (got - want).abs().max().item()
    assert error <= 1e-4 * max(scale, 1e-3), f"{name}: error {error}, largest value {scale}"


class Case:
    """One model with what both sides computed for it."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder
        self.model = make_model(name)
        self.model.save_pretrained(folder / "hf")
        sequences = [torch.randint(0, SMALL["vocab_size"], (length,)) for length in LENGTHS]
        self.logits, self.loss = reference(self.model, sequences)
        self.ours = run_tool(str(folder / "hf"), sequences, str(folder / "out.safetensors"))


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    return Case(request.param, tmp_path_factory.mktemp(request.param))


def test_logits_loss_and_gradients_equal_transformers(case):
    assert_close(case.ours["logits"], case.logits, "logits")
    assert_close(case.ours["loss"], case.loss, "loss")
    gradients = {name[5:]: value for name, value in case.ours.items() if name.startswith("grad.")}
    assert len(gradients) >= 3 + 6 * SMALL["num_hidden_layers"] - case.model.config.tie_word_embeddings
    for name, gradient in gradients.items():
        assert_close(gradient, gradient_of(case.model, name), name)


def test_the_config_we_write_makes_the_same_model(case):
    written = (case.folder / "out.safetensors.config.json").read_text()
    assert json.loads(written)["architectures"] == [type(case.model).__name__]
    (case.folder / "ours").mkdir()
    (case.folder / "ours" / "config.json").write_text(written)
    config = AutoConfig.from_pretrained(case.folder / "ours")
    other = AutoModelForCausalLM.from_config(config).float().eval()
    other.load_state_dict(case.model.state_dict())
    ids = torch.randint(0, SMALL["vocab_size"], (1, 100))
    with torch.no_grad():
        assert torch.equal(other(ids).logits, case.model(ids).logits)

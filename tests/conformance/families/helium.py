from sizes import LLAMA3, NO_PAD, SMALL, WIDE_HEADS
from transformers import HeliumConfig as Config  # noqa: F401

BASE = dict(SMALL, **NO_PAD, head_dim=8)
CASES = {
    "biases": dict(attention_bias=True, mlp_bias=True),
    "attention_biases_alone": dict(attention_bias=True),
    "all_heads": dict(num_key_value_heads=6),
    "wide_heads": dict(WIDE_HEADS, head_dim=80),
    "large_epsilon": dict(rms_norm_eps=0.1),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
}
PRIVATE = dict(WIDE_HEADS, head_dim=80, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3,
               tie_word_embeddings=True)
GPU = {"biases": dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True)}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "head_dim": dict(head_dim=10),
}


def vary(_, changes):
    changes["hidden_size"] = changes["num_attention_heads"] * changes["head_dim"]

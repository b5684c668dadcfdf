from sizes import LINEAR, SMALL, WIDE_HEADS
from transformers import Jais2Config as Config  # noqa: F401

BASE = dict(SMALL, intermediate_size=30)
CASES = {
    "all_heads": dict(num_key_value_heads=None),
    "head_dim": dict(head_dim=12),
    "wide_heads": WIDE_HEADS,
    "no_biases": dict(attention_bias=False, mlp_bias=False),
    "attention_biases_alone": dict(mlp_bias=False),
    "mlp_biases_alone": dict(attention_bias=False),
    "gelu": dict(hidden_act="gelu"),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(WIDE_HEADS, mlp_bias=False, rope_parameters=LINEAR, tie_word_embeddings=True)
GPU = {"head_dim_128": dict(head_dim=128, tie_word_embeddings=True)}
REFUSED = {"hidden_act": dict(hidden_act="relu")}


def vary(_, changes):
    """transformers refuses other sizes."""
    changes["hidden_size"] -= changes["hidden_size"] % changes["num_attention_heads"]

from sizes import LINEAR, SMALL, WIDE_HEADS
from transformers import Starcoder2Config as Config  # noqa: F401

BASE = dict(SMALL, sliding_window=None)
CASES = {
    "window": dict(sliding_window=8),
    "no_biases": dict(use_bias=False),
    "wide_heads": WIDE_HEADS,
    "one_kv_head": dict(num_key_value_heads=1),
    "linear_rotary": dict(rope_parameters=LINEAR),
    "exact_gelu": dict(hidden_act="gelu"),
}
PRIVATE = dict(WIDE_HEADS, sliding_window=5, use_bias=False, rope_parameters=LINEAR)
GPU = {"window": dict(sliding_window=70, use_bias=False, tie_word_embeddings=False)}
REFUSED = {
    "residual_dropout": dict(residual_dropout=0.1),
    "hidden_act": dict(hidden_act="relu"),
}

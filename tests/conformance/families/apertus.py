from sizes import LINEAR, LLAMA3, NO_PAD, SMALL, WIDE_HEADS, YARN
from transformers import ApertusConfig as Config  # noqa: F401

BASE = dict(SMALL, **NO_PAD)
CASES = {
    "all_heads": dict(num_key_value_heads=None),
    "wide_heads": WIDE_HEADS,
    "biases": dict(attention_bias=True),
    "own_rotary": dict(rope_parameters=None),
    "linear_rotary": dict(rope_parameters=LINEAR),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
    "yarn_rotary": dict(rope_parameters=YARN),
    "gelu": dict(hidden_act="gelu"),
    "large_epsilon": dict(rms_norm_eps=0.1),
}
PRIVATE = dict(WIDE_HEADS, attention_bias=True, rope_parameters=LINEAR, tie_word_embeddings=True)
GPU = {"head_dim_128": dict(hidden_size=768, attention_bias=True, tie_word_embeddings=True)}
REFUSED = {
    "mlp_bias": dict(mlp_bias=True),
    "qk_norm": dict(qk_norm=False),
    "post_norm": dict(post_norm=True),
    "hidden_act": dict(hidden_act="relu"),
}

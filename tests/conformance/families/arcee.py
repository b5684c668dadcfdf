from sizes import LINEAR, SMALL, WIDE_HEADS, YARN
from transformers import ArceeConfig as Config  # noqa: F401

BASE = SMALL
CASES = {
    "all_heads": dict(num_key_value_heads=None),
    "head_dim": dict(head_dim=10),
    "wide_heads": WIDE_HEADS,
    "biases": dict(attention_bias=True, mlp_bias=True),
    "gelu": dict(hidden_act="gelu"),
    "yarn_rotary": dict(rope_parameters=YARN),
}
PRIVATE = dict(WIDE_HEADS, attention_bias=True, mlp_bias=True, rope_parameters=LINEAR,
               tie_word_embeddings=True)
GPU = {"head_dim_128": dict(head_dim=128, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)}
REFUSED = {"hidden_act": dict(hidden_act="relu")}

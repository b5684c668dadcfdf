from sizes import NO_PAD, SMALL, WIDE_HEADS, YARN
from transformers import Olmo2Config as Config  # noqa: F401

BASE = dict(SMALL, **NO_PAD)
CASES = {
    "one_head_a_group": dict(num_key_value_heads=6),
    "wide_heads": WIDE_HEADS,
    "head_dim_96": dict(hidden_size=288, num_attention_heads=3, num_key_value_heads=1),
    "biases": dict(attention_bias=True),
    "epsilon": dict(rms_norm_eps=1e-2),
    "yarn_rotary": dict(rope_parameters=YARN),
}
PRIVATE = dict(WIDE_HEADS, attention_bias=True, rope_parameters=YARN)
GPU = {"head_dim_96": dict(head_dim=96, hidden_size=576, attention_bias=True, tie_word_embeddings=True)}
REFUSED = {"hidden_act": dict(hidden_act="relu2")}

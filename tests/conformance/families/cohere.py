from sizes import LINEAR, NO_PAD, SMALL, WIDE_HEADS
from transformers import CohereConfig as Config  # noqa: F401

BASE = dict(SMALL, **NO_PAD)
CASES = {
    "all_heads": dict(num_key_value_heads=None),
    "wide_heads": WIDE_HEADS,
    "biases": dict(attention_bias=True),
    "head_norms": dict(use_qk_norm=True),
    "logit_scale": dict(logit_scale=1.0),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(WIDE_HEADS, use_qk_norm=True, attention_bias=True, logit_scale=0.5, rope_parameters=LINEAR,
               tie_word_embeddings=False)
GPU = {"head_norms": dict(use_qk_norm=True, attention_bias=True, tie_word_embeddings=False, logit_scale=0.25)}
REFUSED = {"hidden_act": dict(hidden_act="relu2")}

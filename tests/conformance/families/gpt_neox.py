from sizes import LINEAR, SMALL
from transformers import GPTNeoXConfig as Config  # noqa: F401

BASE = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}  # 2 of 8 elements turn
WIDE_HEADS = dict(hidden_size=240, num_attention_heads=3)
HALF = dict(rope_type="default", rope_theta=700.0, partial_rotary_factor=0.5)
CASES = {
    "one_after_the_other": dict(use_parallel_residual=False),
    "no_bias": dict(attention_bias=False),
    "wide_heads": WIDE_HEADS,
    "half_turned": dict(rope_parameters=HALF),
    "gelu_new": dict(hidden_act="gelu_new"),
    "linear_rotary": dict(rope_parameters=dict(LINEAR, partial_rotary_factor=0.25)),
}
PRIVATE = dict(WIDE_HEADS, use_parallel_residual=False, rope_parameters=HALF, tie_word_embeddings=True)
GPU = {"half_turned": dict(rope_parameters=HALF, use_parallel_residual=False, tie_word_embeddings=True)}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "hidden_dropout": dict(hidden_dropout=0.1),
    "num_key_value_heads": dict(num_key_value_heads=2),
}

from sizes import LINEAR, SMALL, WIDE_HEADS
from transformers import NemotronConfig as Config  # noqa: F401

BASE = dict(SMALL, intermediate_size=30)  # 4 of 8 elements of a head turn
QUARTER = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25)
CASES = {
    "all_heads": dict(num_key_value_heads=6),
    "head_dim": dict(head_dim=12),
    "wide_heads": WIDE_HEADS,
    "biases": dict(attention_bias=True, mlp_bias=True),
    "quarter_turned": dict(rope_parameters=QUARTER),
    "linear_rotary": dict(rope_parameters=dict(LINEAR, partial_rotary_factor=0.5)),
}
PRIVATE = dict(WIDE_HEADS, attention_bias=True, mlp_bias=True, rope_parameters=QUARTER,
               tie_word_embeddings=True)
GPU = {"head_dim_128": dict(head_dim=128, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)}
REFUSED = {"hidden_act": dict(hidden_act="relu")}

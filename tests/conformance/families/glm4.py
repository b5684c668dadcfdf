from sizes import LINEAR, NO_PAD, SMALL, YARN
from transformers import Glm4Config as Config  # noqa: F401

BASE = dict(SMALL, **NO_PAD, head_dim=12)  # 6 of 12 elements of a head turn
CASES = {
    "no_bias": dict(attention_bias=False),
    "wide_heads": dict(head_dim=80, num_attention_heads=3, num_key_value_heads=1),
    "quarter_turned": dict(head_dim=8, rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                            partial_rotary_factor=0.25)),
    "all_turned": dict(rope_parameters=dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=1.0)),
    "yarn_rotary": dict(rope_parameters=dict(YARN, partial_rotary_factor=0.5)),
}
PRIVATE = dict(attention_bias=False, rope_parameters=dict(LINEAR, partial_rotary_factor=1.0),
               tie_word_embeddings=True)
GPU = {"head_dim_128": dict(head_dim=128, tie_word_embeddings=True)}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "mlp_bias": dict(mlp_bias=True),
}

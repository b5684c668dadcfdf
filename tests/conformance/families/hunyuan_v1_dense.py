from sizes import LINEAR, LLAMA3, LONGROPE, NO_PAD, SMALL, YARN
from transformers import HunYuanDenseV1Config as Config  # noqa: F401

# The scaling of published models: with alpha the base is fixed.
ALPHA = dict(rope_type="dynamic", rope_theta=10000.0, factor=1.0, alpha=40.0, beta_fast=32, beta_slow=1, mscale=1.0,
             mscale_all_dim=0.0)

BASE = dict(SMALL, **NO_PAD, head_dim=10)
CASES = {
    "all_heads": dict(num_key_value_heads=None),
    "wide_heads": dict(head_dim=80, num_attention_heads=3, num_key_value_heads=1),
    "biases": dict(attention_bias=True),
    "alpha": dict(rope_parameters=ALPHA),
    "linear_rotary": dict(rope_parameters=LINEAR),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
    "yarn_rotary": dict(rope_parameters=YARN),
    "longrope_rotary": dict(rope_parameters=dict(LONGROPE, short_factor=[1.0, 1.1, 1.3, 1.7, 2.0],
                                                 long_factor=[1.0, 2.0, 3.0, 4.0, 5.0])),
    "dynamic_rotary": dict(rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=3.0),
                           max_position_embeddings=64),
    "large_epsilon": dict(rms_norm_eps=0.1),
}
PRIVATE = dict(head_dim=16, attention_bias=True, rope_parameters=ALPHA, tie_word_embeddings=True)
GPU = {"head_dim_128": dict(head_dim=128, attention_bias=True, rope_parameters=ALPHA, tie_word_embeddings=True)}
REFUSED = {
    "use_qk_norm": dict(use_qk_norm=False),
    "use_cla": dict(use_cla=True),
    "mlp_bias": dict(mlp_bias=True),
    "alpha": dict(rope_parameters=dict(ALPHA, alpha=-1.0)),
}

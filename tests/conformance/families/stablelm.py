from sizes import LINEAR, SMALL
from transformers import StableLmConfig as Config  # noqa: F401

# A quarter of a head turns: 2 of 8 elements.
BASE = SMALL
WIDE_HEADS = dict(hidden_size=240, num_attention_heads=3, num_key_value_heads=1)  # 20 of 80
HALF = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)
CASES = {
    "biases": dict(use_qkv_bias=True),
    "head_norms": dict(qk_layernorm=True),
    "parallel": dict(use_parallel_residual=True),
    "stablelm_12b": dict(qk_layernorm=True, use_parallel_residual=True),
    "wide_heads": WIDE_HEADS,
    "half_turned": dict(rope_parameters=HALF),
    "linear_rotary": dict(rope_parameters=dict(LINEAR, partial_rotary_factor=0.25)),
}
PRIVATE = dict(WIDE_HEADS, use_qkv_bias=True, qk_layernorm=True, use_parallel_residual=True,
               hidden_act="gelu", rope_parameters=HALF)
GPU = {"head_norms": dict(qk_layernorm=True, use_parallel_residual=True, use_qkv_bias=True,
                          tie_word_embeddings=True)}
REFUSED = {"hidden_dropout": dict(hidden_dropout=0.1)}

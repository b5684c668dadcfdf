from sizes import DYNAMIC, LLAMA3, NO_PAD, SMALL
from transformers import GlmConfig as Config  # noqa: F401

BASE = dict(SMALL, **NO_PAD, head_dim=20)  # 10 of 20 elements of a head turn
PLAIN = dict(rope_type="default", rope_theta=3000.0)
CASES = {
    "wide_heads": dict(head_dim=96, num_attention_heads=3, num_key_value_heads=1),
    "all_turned": dict(rope_parameters=dict(PLAIN, partial_rotary_factor=1.0)),
    "few_turned": dict(rope_parameters=dict(PLAIN, partial_rotary_factor=0.2)),
    "no_bias": dict(attention_bias=False),
    "llama3_rotary": dict(rope_parameters=dict(LLAMA3, partial_rotary_factor=0.5)),
    "dynamic_rotary": dict(rope_parameters=dict(DYNAMIC, partial_rotary_factor=0.5), max_position_embeddings=16),
}
PRIVATE = dict(attention_bias=False, tie_word_embeddings=True,
               rope_parameters=dict(LLAMA3, partial_rotary_factor=0.5))
GPU = {"no_bias": dict(head_dim=128, attention_bias=False, tie_word_embeddings=True)}
REFUSED = {"mlp_bias": dict(mlp_bias=True), "hidden_act": dict(hidden_act="relu2")}

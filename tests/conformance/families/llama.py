from sizes import DYNAMIC, LINEAR, LLAMA3, LONGROPE, SMALL, WIDE_HEADS, YARN
from transformers import LlamaConfig as Config  # noqa: F401

BASE = SMALL
CASES = {
    "all_heads": dict(num_key_value_heads=6),
    "one_kv_head": dict(num_key_value_heads=1, head_dim=96),
    "wide_heads": WIDE_HEADS,
    "biases": dict(attention_bias=True, mlp_bias=True),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
    "linear_rotary": dict(rope_parameters=LINEAR),
    "dynamic_rotary": dict(rope_parameters=DYNAMIC, max_position_embeddings=16),
    "yarn_rotary": dict(rope_parameters=YARN),
    "yarn_of_all_its_keys": dict(rope_parameters=dict(YARN, beta_fast=8.0, beta_slow=0.5,
                                                      truncate=False, attention_factor=0.9)),
    "longrope_rotary": dict(rope_parameters=LONGROPE),
}
PRIVATE = dict(WIDE_HEADS, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3,
               tie_word_embeddings=True)
GPU = {
    "head_dim_128": dict(head_dim=128, rope_parameters=LLAMA3, tie_word_embeddings=True),
    "head_dim_72": dict(head_dim=72, attention_bias=True, mlp_bias=True, rope_parameters=YARN),
    "dynamic_rotary": dict(rope_parameters=DYNAMIC, max_position_embeddings=100),
}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "rope_parameters.rope_type": dict(rope_parameters=dict(rope_type="mrope")),
    "rope_parameters.factor": dict(rope_parameters=dict(rope_type="linear", factor=0.5)),
    "rope_parameters.short_factor": dict(rope_parameters=dict(LONGROPE, short_factor=[1.0])),
}

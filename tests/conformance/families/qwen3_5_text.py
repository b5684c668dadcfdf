from delta_nets import MIXERS, QWEN3_5_CASES, vary  # noqa: F401
from sizes import LLAMA3, SMALL
from transformers import Qwen3_5TextConfig as Config  # noqa: F401

BASE = dict(SMALL, head_dim=12, linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=10,
            linear_value_head_dim=14, layer_types=MIXERS,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))
CASES = QWEN3_5_CASES
PRIVATE = dict(attention_bias=True, linear_num_key_heads=3, linear_num_value_heads=3, tie_word_embeddings=True,
               rope_parameters=dict(LLAMA3, partial_rotary_factor=0.5))
GPU = {
    "wide_heads_of_values": dict(tie_word_embeddings=True, linear_key_head_dim=128, linear_value_head_dim=128),
    "small_heads": dict(linear_key_head_dim=32, linear_value_head_dim=64),
}
REFUSED = {
    "hidden_act": dict(hidden_act="gelu"),
    "linear_num_value_heads": dict(linear_num_value_heads=5),
    "attn_output_gate": dict(attn_output_gate=False),
}

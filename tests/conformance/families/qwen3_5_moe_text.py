from delta_nets import MIXERS, QWEN3_5_CASES, vary  # noqa: F401
from sizes import LLAMA3, SMALL
from transformers import Qwen3_5MoeTextConfig as Config  # noqa: F401

EXPERTS = dict(num_experts=7, num_experts_per_tok=3, moe_intermediate_size=20, shared_expert_intermediate_size=44)
BASE = dict({key: size for key, size in SMALL.items() if key != "intermediate_size"}, **EXPERTS, head_dim=12,
            linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=10, linear_value_head_dim=14,
            layer_types=MIXERS,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))
CASES = {**QWEN3_5_CASES, "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5)}
PRIVATE = dict(attention_bias=True, linear_num_key_heads=3, linear_num_value_heads=3, tie_word_embeddings=True,
               output_router_logits=True, router_aux_loss_coef=0.1,
               rope_parameters=dict(LLAMA3, partial_rotary_factor=0.5))
GPU = {
    "wide_heads_of_values": dict(num_experts_per_tok=7, linear_key_head_dim=128, linear_value_head_dim=128),
    "small_heads": dict(num_experts_per_tok=7, linear_key_head_dim=32, linear_value_head_dim=64),
}
REFUSED = {
    "hidden_act": dict(hidden_act="gelu"),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
    "linear_num_value_heads": dict(linear_num_value_heads=5),
    "attn_output_gate": dict(attn_output_gate=False),
}

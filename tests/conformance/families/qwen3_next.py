from delta_nets import MIXERS, vary  # noqa: F401
from sizes import LLAMA3, SMALL
from transformers import Qwen3NextConfig as Config  # noqa: F401

# 3 heads of values for each of queries and keys, widths that are multiples of nothing.
BASE = dict(SMALL, head_dim=12, num_experts=7, num_experts_per_tok=3, moe_intermediate_size=20,
            shared_expert_intermediate_size=44, linear_num_key_heads=2, linear_num_value_heads=6,
            linear_key_head_dim=10, linear_value_head_dim=14, layer_types=MIXERS,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))
CASES = {
    "biases": dict(attention_bias=True),
    "one_head_of_values_each": dict(linear_num_key_heads=3, linear_num_value_heads=3),
    "wide_keys": dict(linear_key_head_dim=24, linear_value_head_dim=9),
    "short_convolution": dict(linear_conv_kernel_dim=1),
    "long_convolution": dict(linear_conv_kernel_dim=7),
    "dense_layers": dict(decoder_sparse_step=2),
    "some_dense_layers": dict(mlp_only_layers=[2]),
    "not_normalized": dict(norm_topk_prob=False),
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5),
    "delta_rule_alone": dict(layer_types=["linear_attention"] * 3),
    "attention_alone": dict(layer_types=["full_attention"] * 3),
    "wide_heads": dict(head_dim=80),
    "all_turned": dict(rope_parameters=dict(rope_type="default", rope_theta=3000.0, partial_rotary_factor=1.0)),
    "large_epsilon": dict(rms_norm_eps=0.1),
}
PRIVATE = dict(attention_bias=True, linear_num_key_heads=3, linear_num_value_heads=3, mlp_only_layers=[1],
               tie_word_embeddings=True, output_router_logits=True, router_aux_loss_coef=0.1,
               rope_parameters=dict(LLAMA3, partial_rotary_factor=0.5))
GPU = {
    "all_experts": dict(num_experts_per_tok=7, tie_word_embeddings=True, linear_key_head_dim=128,
                        linear_value_head_dim=128),
    "small_heads": dict(num_experts_per_tok=7, linear_key_head_dim=32, linear_value_head_dim=64),
}
REFUSED = {
    "hidden_act": dict(hidden_act="gelu"),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
    "linear_num_value_heads": dict(linear_num_value_heads=5),
    "layer_types": dict(layer_types=["linear_attention", "full_attention", "sliding_attention"]),
}

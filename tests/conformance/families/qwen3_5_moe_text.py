from sizes import LLAMA3, SMALL
from transformers import Qwen3_5MoeTextConfig as Config  # noqa: F401

MIXERS = ["linear_attention", "full_attention", "linear_attention"]
EXPERTS = dict(num_experts=7, num_experts_per_tok=3, moe_intermediate_size=20, shared_expert_intermediate_size=44)
BASE = dict({key: size for key, size in SMALL.items() if key != "intermediate_size"}, **EXPERTS, head_dim=12,
            linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=10, linear_value_head_dim=14,
            layer_types=MIXERS,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))
CASES = {
    "biases": dict(attention_bias=True),
    "parts_of_positions": dict(rope_parameters=dict(rope_type="default", rope_theta=700.0, partial_rotary_factor=0.5,
                                                    mrope_section=[1, 1, 1], mrope_interleaved=True)),
    "one_head_of_values_each": dict(linear_num_key_heads=3, linear_num_value_heads=3),
    "long_convolution": dict(linear_conv_kernel_dim=7),
    "own_layer_types": dict(layer_types=None, num_hidden_layers=4),
    "delta_rule_alone": dict(layer_types=["linear_attention"] * 3),
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5),
    "wide_heads": dict(head_dim=80),
}
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


def vary(generator, changes):
    """Draws the mixers and the heads of the delta rule. Its convolution has one activation."""
    changes.pop("hidden_act", None)
    changes["layer_types"] = [generator.choice(["linear_attention", "linear_attention", "full_attention"])
                              for _ in range(changes["num_hidden_layers"])]
    key_heads = generator.choice([1, 2, 3])
    changes.update(linear_num_key_heads=key_heads, linear_num_value_heads=key_heads * generator.choice([1, 2, 3]),
                   linear_key_head_dim=generator.choice([4, 7, 16, 33]),
                   linear_value_head_dim=generator.choice([5, 8, 16, 40]),
                   linear_conv_kernel_dim=generator.choice([2, 3, 4]))

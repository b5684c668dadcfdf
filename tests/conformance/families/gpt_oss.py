from sizes import LINEAR, SMALL, WIDE_HEADS
from transformers import GptOssConfig as Config  # noqa: F401

YARN = dict(rope_type="yarn", rope_theta=150000.0, factor=8.0, beta_fast=32.0, beta_slow=1.0,
            truncate=False, original_max_position_embeddings=64)

BASE = dict(SMALL, intermediate_size=20, head_dim=8, num_local_experts=7, num_experts_per_tok=3,
            sliding_window=9, rope_parameters=YARN)
CASES = {
    "no_window": dict(layer_types=["full_attention"] * 3),
    "all_windows": dict(layer_types=["sliding_attention"] * 3),
    "one_expert_a_token": dict(num_experts_per_tok=1),
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5),
    "no_attention_bias": dict(attention_bias=False),
    "wide_heads": dict(WIDE_HEADS, head_dim=80),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(num_local_experts=5, num_experts_per_tok=2, head_dim=16, tie_word_embeddings=True,
               output_router_logits=True, router_aux_loss_coef=0.1)
GPU = {
    "all_experts": dict(num_experts_per_tok=7, layer_types=["full_attention"] * 3),
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5),
}
REFUSED = {
    "quantization_config.quant_method": dict(quantization_config=dict(quant_method="fp8")),
    "swiglu_limit": dict(swiglu_limit=5.0),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
}


def vary(generator, changes):
    changes["hidden_act"] = "silu"

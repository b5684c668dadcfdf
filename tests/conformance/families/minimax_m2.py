from sizes import LLAMA3, SMALL, YARN
from transformers import MiniMaxM2Config as Config  # noqa: F401

BASE = dict(SMALL, num_local_experts=7, num_experts_per_tok=3, head_dim=20,
            rope_parameters=dict(rope_type="default", rope_theta=5e6, partial_rotary_factor=0.5))
CASES = {
    "whole_heads_turned": dict(rope_parameters=dict(rope_type="default", rope_theta=3000.0)),
    "few_turned": dict(rope_parameters=dict(rope_type="default", rope_theta=3000.0, partial_rotary_factor=0.2)),
    "two_of_two_experts": dict(num_local_experts=2, num_experts_per_tok=2),
    "wide_heads": dict(head_dim=96, num_attention_heads=3, num_key_value_heads=1),
    "yarn_rotary": dict(rope_parameters=dict(YARN, partial_rotary_factor=0.5)),
}
PRIVATE = dict(head_dim=96, num_attention_heads=3, num_key_value_heads=1, tie_word_embeddings=True,
               rope_parameters=dict(LLAMA3, partial_rotary_factor=0.5))
GPU = {
    "all_experts": dict(num_experts_per_tok=7, tie_word_embeddings=True),  # no choice that rounding can turn
    "head_dim_128": dict(head_dim=128),
}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
    "output_router_logits": dict(output_router_logits=True),
    "router_jitter_noise": dict(router_jitter_noise=0.1),
    "rotary_dim": dict(rotary_dim=8),
    "attn_type_list": dict(attn_type_list=[1, 0, 1]),
    "use_qk_norm": dict(use_qk_norm=False),
}


def vary(generator, changes):
    """Draws the experts, and no auxiliary loss. The weight of one expert is 1, whose gradient in transformers is nothing but rounding."""
    changes["output_router_logits"] = False
    changes["num_local_experts"] = generator.randint(2, 9)
    changes["num_experts_per_tok"] = generator.randint(2, changes["num_local_experts"])

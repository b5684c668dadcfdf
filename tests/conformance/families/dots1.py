from sizes import LLAMA3, SMALL, vary_groups
from transformers import Dots1Config as Config  # noqa: F401

BASE = dict(SMALL, n_routed_experts=7, num_experts_per_tok=3, moe_intermediate_size=20, n_shared_experts=1,
            first_k_dense_replace=1, norm_topk_prob=True, head_dim=20)
GROUPS = dict(n_routed_experts=12, n_group=4, topk_group=2)
CASES = {
    "biases": dict(attention_bias=True),
    "groups": GROUPS,
    "not_normalized": dict(norm_topk_prob=False),
    "scaled_weights": dict(routed_scaling_factor=2.5),
    "all_layers_with_experts": dict(first_k_dense_replace=0),
    "two_shared_experts": dict(n_shared_experts=2),
    "windows": dict(sliding_window=9, max_window_layers=1),
    "layer_types": dict(sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "no_window": dict(sliding_window=None),
    "wide_heads": dict(head_dim=96, num_attention_heads=3, num_key_value_heads=1),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
}
PRIVATE = dict(GROUPS, attention_bias=True, routed_scaling_factor=1.7, n_shared_experts=3, sliding_window=9,
               max_window_layers=2, tie_word_embeddings=True, rope_parameters=LLAMA3)
GPU = {
    "all_experts": dict(num_experts_per_tok=7, tie_word_embeddings=True),  # no choice that rounding can turn
    "groups": dict(GROUPS, attention_bias=True, routed_scaling_factor=2.5, head_dim=128),
}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
    "topk_group": dict(topk_group=2),
    "mlp_bias": dict(mlp_bias=True),
}


def vary(generator, changes):
    vary_groups(generator, changes)
    changes["first_k_dense_replace"] = generator.randint(0, changes["num_hidden_layers"])

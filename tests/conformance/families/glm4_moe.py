from sizes import LLAMA3, SMALL, YARN, vary_groups
from transformers import Glm4MoeConfig as Config  # noqa: F401

BASE = dict(SMALL, n_routed_experts=7, num_experts_per_tok=3, moe_intermediate_size=20, head_dim=20)
GROUPS = dict(n_routed_experts=12, n_group=4, topk_group=2)
CASES = {
    "norms_of_heads": dict(use_qk_norm=True),
    "biases": dict(attention_bias=True),
    "groups": GROUPS,
    "one_group_of_three": dict(n_routed_experts=9, n_group=3, topk_group=1),
    "not_normalized": dict(norm_topk_prob=False),
    "scaled_weights": dict(routed_scaling_factor=2.5),
    "all_layers_with_experts": dict(first_k_dense_replace=0),
    "no_layer_with_experts": dict(first_k_dense_replace=3),
    "two_shared_experts": dict(n_shared_experts=2),
    "wide_heads": dict(head_dim=96, num_attention_heads=3, num_key_value_heads=1),
    "few_turned": dict(rope_parameters=dict(rope_type="default", rope_theta=3000.0, partial_rotary_factor=0.2)),
    "yarn_rotary": dict(rope_parameters=dict(YARN, partial_rotary_factor=0.5)),
}
PRIVATE = dict(GROUPS, use_qk_norm=True, attention_bias=True, routed_scaling_factor=1.7, n_shared_experts=3,
               tie_word_embeddings=True, rope_parameters=dict(LLAMA3, partial_rotary_factor=0.5))
GPU = {
    "all_experts": dict(num_experts_per_tok=7, tie_word_embeddings=True),  # no choice that rounding can turn
    "groups": dict(GROUPS, use_qk_norm=True, attention_bias=True, routed_scaling_factor=2.5),
}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
    "n_group": dict(n_group=7),
    "topk_group": dict(topk_group=2),
    "mlp_bias": dict(mlp_bias=True),
}


def vary(generator, changes):
    vary_groups(generator, changes)
    changes["first_k_dense_replace"] = generator.randint(0, changes["num_hidden_layers"])

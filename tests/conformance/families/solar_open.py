from random_configs import draw_rotary, is_set
from sizes import LLAMA3, SMALL, YARN, vary_groups
from transformers import SolarOpenConfig as Config  # noqa: F401

BASE = dict({key: size for key, size in SMALL.items() if key != "intermediate_size"}, n_routed_experts=7,
            num_experts_per_tok=3, moe_intermediate_size=20, head_dim=20)
GROUPS = dict(n_routed_experts=12, n_group=4, topk_group=2)
CASES = {
    "biases": dict(attention_bias=True),
    "groups": GROUPS,
    "not_normalized": dict(norm_topk_prob=False),
    "scaled_weights": dict(routed_scaling_factor=2.5),
    "two_shared_experts": dict(n_shared_experts=2),
    "wide_heads": dict(head_dim=96, num_attention_heads=3, num_key_value_heads=1),
    "yarn_rotary": dict(rope_parameters=YARN),
}
PRIVATE = dict(GROUPS, attention_bias=True, routed_scaling_factor=1.7, n_shared_experts=3, tie_word_embeddings=True,
               rope_parameters=LLAMA3)
GPU = {
    "all_experts": dict(num_experts_per_tok=7, tie_word_embeddings=True),  # no choice that rounding can turn
    "groups": dict(GROUPS, n_group=3, num_experts_per_tok=8, attention_bias=True, head_dim=128),
}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
    "topk_group": dict(topk_group=2),
    "first_k_dense_replace": dict(first_k_dense_replace=1),
    "use_qk_norm": dict(use_qk_norm=True),
    # transformers has the key, and fails with parts of heads.
    "partial_rotary_factor": dict(rope_parameters=dict(rope_type="default", rope_theta=3000.0,
                                                       partial_rotary_factor=0.5)),
}


def vary(generator, changes):
    vary_groups(generator, changes)
    changes.pop("intermediate_size", None)
    changes.pop("rope_parameters", None)
    if is_set(generator):
        changes["rope_parameters"] = draw_rotary(generator, changes["head_dim"])

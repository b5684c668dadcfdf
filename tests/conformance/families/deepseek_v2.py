from latent_heads import LATENT_CASES, LATENT_GPU, LATENT_REFUSED, SIZES, vary_heads
from sizes import YARN, vary_groups
from transformers import DeepseekV2Config as Config  # noqa: F401

BASE = dict(SIZES, n_routed_experts=7, num_experts_per_tok=3, moe_intermediate_size=20, first_k_dense_replace=1)
GROUPS = dict(n_routed_experts=12, n_group=4, topk_group=2, topk_method="group_limited_greedy")
CASES = {
    **LATENT_CASES,
    "groups": GROUPS,
    "groups_of_one": dict(n_routed_experts=5, n_group=5, topk_group=4, topk_method="group_limited_greedy"),
    "groups_without_a_choice": dict(n_routed_experts=12, n_group=4, topk_group=2),
    "scaled_weights": dict(routed_scaling_factor=16.0),
    "all_layers_with_experts": dict(first_k_dense_replace=0),
    "no_layer_with_experts": dict(first_k_dense_replace=3),
    "one_shared_expert": dict(n_shared_experts=1),
}
PRIVATE = dict(GROUPS, attention_bias=True, routed_scaling_factor=1.7, n_shared_experts=3, q_lora_rank=None,
               tie_word_embeddings=True, rope_parameters=dict(YARN, mscale=0.7, mscale_all_dim=0.7))
GPU = {
    **{name: dict(changes, num_experts_per_tok=7) for name, changes in LATENT_GPU.items()},
    "groups": dict(GROUPS, attention_bias=True, routed_scaling_factor=2.5),
}
REFUSED = {
    **LATENT_REFUSED,
    "mlp_bias": dict(mlp_bias=True),
    "norm_topk_prob": dict(norm_topk_prob=True),
    "topk_method": dict(topk_method="noaux_tc"),
    "n_group": dict(n_group=5, topk_group=1, topk_method="group_limited_greedy"),
}


def vary(generator, changes):
    vary_heads(generator, changes)
    vary_groups(generator, changes, least=1)
    changes.update(first_k_dense_replace=generator.randint(0, changes["num_hidden_layers"]),
                   topk_method=generator.choice(["greedy", "group_limited_greedy"]), mlp_bias=False,
                   norm_topk_prob=False)

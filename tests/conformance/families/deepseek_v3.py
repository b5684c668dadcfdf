from latent_heads import LATENT_CASES, LATENT_GPU, LATENT_REFUSED, SIZES, vary_heads
from sizes import YARN, vary_groups
from transformers import DeepseekV3Config as Config  # noqa: F401

BASE = dict(SIZES, num_key_value_heads=None, n_routed_experts=7, num_experts_per_tok=3, moe_intermediate_size=20,
            first_k_dense_replace=1, n_group=1, topk_group=1)
GROUPS = dict(n_routed_experts=12, n_group=4, topk_group=2)
CASES = {
    **LATENT_CASES,
    "halves_turned": dict(rope_interleave=False),
    "groups": GROUPS,
    "not_normalized": dict(norm_topk_prob=False),
    "unscaled_weights": dict(routed_scaling_factor=1.0),
    "all_layers_with_experts": dict(first_k_dense_replace=0),
    "no_layer_with_experts": dict(first_k_dense_replace=3),
    "two_shared_experts": dict(n_shared_experts=2),
}
PRIVATE = dict(GROUPS, attention_bias=True, routed_scaling_factor=1.7, n_shared_experts=3, q_lora_rank=None,
               rope_interleave=False, tie_word_embeddings=True,
               rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0))
GPU = {
    **{name: dict(changes, num_experts_per_tok=7) for name, changes in LATENT_GPU.items()},
    # Every token takes all experts of two groups: rounding leaves none without tokens.
    "groups": dict(GROUPS, n_group=3, num_experts_per_tok=8, attention_bias=True),
}
REFUSED = {
    **LATENT_REFUSED,
    "n_group": dict(n_group=7),
    "topk_group": dict(topk_group=2),
}


def vary(generator, changes):
    vary_heads(generator, changes)
    vary_groups(generator, changes, least=2)
    changes.update(first_k_dense_replace=generator.randint(0, changes["num_hidden_layers"]),
                   rope_interleave=generator.choice([False, True]))

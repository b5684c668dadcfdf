from latent_heads import LATENT_CASES, LATENT_GPU, LATENT_REFUSED, SIZES, vary_heads
from sizes import YARN, vary_groups
from transformers import Glm4MoeLiteConfig

BASE = dict(SIZES, n_routed_experts=7, num_experts_per_tok=3, moe_intermediate_size=20)
GROUPS = dict(n_routed_experts=12, n_group=4, topk_group=2)
CASES = {
    **{name: LATENT_CASES[name] for name in ("queries_of_whole_rows", "biases", "narrow_values", "wide_heads",
                                                  "yarn_scales_both")},
    "halves_turned": dict(rope_interleave=False),
    "groups": GROUPS,
    "not_normalized": dict(norm_topk_prob=False),
    "dense_layers_between": dict(mlp_layer_types=["sparse", "dense", "sparse"]),
}
PRIVATE = dict(GROUPS, attention_bias=True, n_shared_experts=3, q_lora_rank=None, tie_word_embeddings=True,
               mlp_layer_types=["sparse", "dense", "sparse"], rope_parameters=YARN)
GPU = {name: dict(changes, num_experts_per_tok=7) for name, changes in LATENT_GPU.items()}
REFUSED = {
    **LATENT_REFUSED,
    "n_group": dict(n_group=7),
    "mlp_layer_types": dict(mlp_layer_types=["sparse", "dense"]),
}


def Config(**sizes):
    """The class has a number of heads of keys of its own."""
    return Glm4MoeLiteConfig(**{"num_key_value_heads": sizes["num_attention_heads"], **sizes})


def vary(generator, changes):
    vary_heads(generator, changes)
    vary_groups(generator, changes, least=2)
    changes.update(mlp_layer_types=[generator.choice(["dense", "sparse"]) for _ in range(changes["num_hidden_layers"])],
                   rope_interleave=generator.choice([False, True]))

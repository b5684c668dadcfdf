from sizes import NO_PAD, SMALL
from transformers import NemotronHConfig as Config  # noqa: F401

TIED = False  # transformers ties no weights of this family
MIXERS = ["linear_attention", "moe", "full_attention", "mlp"]
# 3 heads for each of two groups, a state whose sizes are multiples of nothing.
BASE = dict(SMALL, **NO_PAD, num_hidden_layers=4, layers_block_type=MIXERS, head_dim=14, mamba_num_heads=6,
            mamba_head_dim=10, n_groups=2, ssm_state_size=13, chunk_size=32, n_routed_experts=7, num_experts_per_tok=3,
            moe_intermediate_size=20, moe_shared_expert_intermediate_size=34)
GROUPS = dict(n_routed_experts=12, n_group=4, topk_group=2)
CASES = {
    "biases": dict(mlp_bias=True, use_bias=True),
    "convolution_without_a_bias": dict(use_conv_bias=False),
    "one_group": dict(n_groups=1, conv_kernel=3),
    "a_group_each": dict(n_groups=6),
    "limited_steps": dict(time_step_min=0.9),
    "groups_of_experts": GROUPS,
    "not_normalized": dict(norm_topk_prob=False),
    "scaled_weights": dict(routed_scaling_factor=2.5),
    "all_experts": dict(num_experts_per_tok=7),
    "gelu": dict(mlp_hidden_act="gelu"),
    "no_experts": dict(layers_block_type=["linear_attention", "mlp", "full_attention", "mlp"]),
    "mixers_alone": dict(layers_block_type=["linear_attention", "full_attention"], num_hidden_layers=2),
    "mlps_alone": dict(layers_block_type=["mlp", "moe"], num_hidden_layers=2),
    "mamba_last": dict(layers_block_type=["moe", "full_attention", "linear_attention"], num_hidden_layers=3),
    "attention_last": dict(layers_block_type=["linear_attention", "linear_attention", "full_attention"],
                           num_hidden_layers=3),
    "large_epsilon": dict(layer_norm_epsilon=0.1),
    "wide_heads": dict(head_dim=96, num_attention_heads=3, num_key_value_heads=1),
}
PRIVATE = dict(mlp_bias=True, use_bias=True, n_groups=3, conv_kernel=3, routed_scaling_factor=1.7,
               layers_block_type=["full_attention", "mlp", "linear_attention", "moe"])
GPU = {
    "all_experts": dict(num_experts_per_tok=7, mamba_num_heads=12, mamba_head_dim=64, n_groups=2, ssm_state_size=128,
                        moe_shared_expert_intermediate_size=264),  # no choice that rounding can turn
    "no_experts": dict(layers_block_type=["linear_attention", "mlp", "full_attention", "linear_attention"],
                       mamba_num_heads=12, mamba_head_dim=64, n_groups=1, ssm_state_size=128, mlp_bias=True),
}
REFUSED = {
    "attention_bias": dict(attention_bias=True),
    "mamba_hidden_act": dict(mamba_hidden_act="gelu"),
    "moe_latent_size": dict(moe_latent_size=16),
    "n_groups": dict(n_groups=4),
    "n_shared_experts": dict(n_shared_experts=2),
    "residual_in_fp32": dict(residual_in_fp32=True),
    "tie_word_embeddings": dict(tie_word_embeddings=True),
}


def vary(generator, changes):
    """Draws the layers, the state space model and groups of experts. The weight of one expert is 1, whose gradient in
    transformers is nothing but rounding."""
    for key in ("attention_bias", "sliding_window", "tie_word_embeddings", "hidden_act"):
        changes.pop(key, None)
    heads, groups = generator.choice([1, 2, 3, 4, 6]), generator.choice([1, 2, 3])
    chosen, per_group = generator.randint(1, groups), generator.randint(2, 4)
    changes.update(layers_block_type=[generator.choice(MIXERS) for _ in range(changes["num_hidden_layers"])],
                   mamba_num_heads=heads, mamba_head_dim=generator.choice([5, 16]),
                   n_groups=generator.choice([count for count in (1, 2, 3) if heads % count == 0]),
                   ssm_state_size=generator.choice([3, 8, 33]), conv_kernel=generator.choice([1, 2, 4]),
                   use_conv_bias=generator.choice([False, True]), use_bias=generator.choice([False, True]),
                   n_routed_experts=groups * per_group, num_experts_per_tok=generator.randint(2, chosen * per_group),
                   n_group=groups, topk_group=chosen)

from sizes import SMALL, WIDE_HEADS, YARN
from transformers import GraniteMoeHybridConfig as Config  # noqa: F401

MIXERS = ["linear_attention", "full_attention", "linear_attention"]
# 3 heads for each of two groups, a state whose sizes are multiples of nothing.
BASE = dict(SMALL, intermediate_size=20, num_local_experts=7, num_experts_per_tok=3, shared_intermediate_size=15,
            embedding_multiplier=3.0, attention_multiplier=0.25, residual_multiplier=0.4, logits_scaling=2.0,
            mamba_n_heads=6, mamba_n_groups=2, mamba_d_state=13, layer_types=MIXERS, mamba_chunk_size=32)
DENSE = dict(num_local_experts=0, shared_intermediate_size=76)
CASES = {
    "dense": DENSE,
    "rotary": dict(position_embedding_type="rope", rope_parameters=YARN),
    "biases": dict(attention_bias=True, mamba_proj_bias=True),
    "convolution_without_a_bias": dict(mamba_conv_bias=False),
    "one_group": dict(DENSE, mamba_n_groups=1),
    "a_group_each": dict(DENSE, mamba_n_groups=6),
    "wide_state": dict(DENSE, mamba_d_state=70, mamba_n_heads=1, mamba_n_groups=1),
    "long_convolution": dict(DENSE, mamba_d_conv=7),
    "no_expansion": dict(DENSE, mamba_expand=1),
    "limited_steps": dict(DENSE, time_step_limit=[0.3, 1.1]),
    "mamba_alone": dict(DENSE, layer_types=None),
    "attention_alone": dict(DENSE, layer_types=["full_attention"] * 3),
    "mamba_last": dict(DENSE, layer_types=["full_attention", "linear_attention", "linear_attention"]),
    "one_expert_a_token": dict(num_experts_per_tok=1),
    "large_epsilon": dict(DENSE, rms_norm_eps=0.1),
    "wide_heads": dict(DENSE, **WIDE_HEADS, attention_multiplier=0.0125),
}
# Not output_router_logits: transformers 5.17 fails with it.
PRIVATE = dict(DENSE, attention_bias=True, mamba_proj_bias=True, mamba_n_groups=3, mamba_d_conv=3,
               tie_word_embeddings=True, position_embedding_type="rope")
GPU = {
    "dense": dict(DENSE, mamba_n_heads=12, mamba_n_groups=1, mamba_d_state=128, tie_word_embeddings=True),
    "all_experts": dict(num_experts_per_tok=7, shared_intermediate_size=264),
}
REFUSED = {
    "hidden_act": dict(hidden_act="gelu"),
    "mamba_n_groups": dict(mamba_n_groups=4),
    "time_step_limit": dict(time_step_limit=[0.5, 0.1]),
}


def vary(generator, changes):
    """Draws the mixers and the state space model, whose convolution has one activation."""
    changes.pop("hidden_act", None)
    heads = generator.choice([count for count in (1, 2, 3, 4, 6) if 2 * changes["hidden_size"] % count == 0])
    if generator.choice([False, True]):
        changes["num_local_experts"] = 0
    changes.update(output_router_logits=False, shared_intermediate_size=generator.choice([5, 40]),
                   layer_types=[generator.choice(["linear_attention", "linear_attention", "full_attention"])
                                for _ in range(changes["num_hidden_layers"])],
                   mamba_n_groups=generator.choice([count for count in (1, 2, 3) if heads % count == 0]),
                   mamba_n_heads=heads, mamba_d_state=generator.choice([3, 8, 33]),
                   mamba_d_conv=generator.choice([1, 2, 4]), mamba_conv_bias=generator.choice([False, True]),
                   mamba_proj_bias=generator.choice([False, True]),
                   position_embedding_type=generator.choice([None, "rope"]))

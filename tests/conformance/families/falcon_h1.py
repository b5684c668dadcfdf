from sizes import LINEAR, NO_PAD, SMALL, YARN
from transformers import FalconH1Config as Config  # noqa: F401

# 3 heads for each of two groups, a state whose sizes are multiples of nothing.
BASE = dict(SMALL, **NO_PAD, mamba_d_ssm=60, mamba_n_heads=6, mamba_n_groups=2, mamba_d_state=13, mamba_chunk_size=32)
NORM = dict(mamba_rms_norm=True, mamba_norm_before_gate=False)
FACTORS = dict(embedding_multiplier=3.0, lm_head_multiplier=0.4, key_multiplier=0.6, attention_in_multiplier=1.3,
               attention_out_multiplier=0.7, ssm_in_multiplier=1.2, ssm_out_multiplier=0.8,
               ssm_multipliers=[0.7, 1.1, 0.6, 1.4, 0.9], mlp_multipliers=[0.8, 0.5])
CASES = {
    "factors": FACTORS,
    "norm": NORM,
    "norm_and_factors": dict(NORM, **FACTORS),
    "factors_of_attention": dict(key_multiplier=0.6, attention_in_multiplier=1.3, attention_out_multiplier=0.7),
    "factors_of_mamba": dict(ssm_in_multiplier=1.2, ssm_out_multiplier=0.8,
                             ssm_multipliers=[0.7, 1.1, 0.6, 1.4, 0.9]),
    "factors_of_the_mlp": dict(mlp_multipliers=[0.8, 0.5]),
    "biases": dict(attention_bias=True, mlp_bias=True, mamba_proj_bias=True, projectors_bias=True,
                   attention_out_multiplier=0.7, ssm_out_multiplier=0.8, mlp_multipliers=[0.8, 0.5],
                   ssm_multipliers=[0.7, 1.1, 0.6, 1.4, 0.9]),
    "convolution_without_a_bias": dict(mamba_conv_bias=False),
    "one_group": dict(NORM, mamba_n_groups=1, mamba_d_conv=3),
    "width_of_expansion": dict(mamba_d_ssm=None, mamba_d_head=16, mamba_expand=2),
    "limited_steps": dict(time_step_limit=[0.3, 1.1]),
    "large_epsilon": dict(NORM, rms_norm_eps=0.1),
    "linear_rotary": dict(rope_parameters=LINEAR),
    "wide_heads": dict(hidden_size=240, num_attention_heads=3, num_key_value_heads=1, key_multiplier=0.6),
}
PRIVATE = dict(FACTORS, **NORM, mamba_n_groups=3, mamba_d_conv=3, tie_word_embeddings=True, mlp_bias=True,
               rope_parameters=YARN)
GPU = {
    "factors": dict(FACTORS, mamba_d_ssm=768, mamba_n_heads=12, mamba_n_groups=1, mamba_d_state=128,
                    tie_word_embeddings=True),
    "norm": dict(NORM, mamba_d_ssm=384),
}
REFUSED = {
    "attention_in_multiplier": dict(attention_bias=True, attention_in_multiplier=1.3),
    "hidden_act": dict(hidden_act="gelu"),
    "key_multiplier": dict(key_multiplier=-1.0),
    "mamba_n_groups": dict(mamba_n_groups=4),
    "mamba_norm_before_gate": dict(mamba_rms_norm=True, mamba_norm_before_gate=True),
    "projectors_bias": dict(projectors_bias=True),
    "ssm_in_multiplier": dict(mamba_proj_bias=True, projectors_bias=True, ssm_in_multiplier=1.2),
}


def vary(generator, changes):
    """Draws the state space model and the factors. Its convolution has one activation."""
    changes.pop("hidden_act", None)
    heads, bias = generator.choice([1, 2, 3, 4, 6]), generator.choice([False, True])
    changes.update(NORM if generator.choice([False, True]) else {}, mamba_n_heads=heads,
                   mamba_d_ssm=heads * generator.choice([5, 16]),
                   mamba_n_groups=generator.choice([count for count in (1, 2, 3) if heads % count == 0]),
                   mamba_d_state=generator.choice([3, 8, 33]), mamba_d_conv=generator.choice([1, 2, 4]),
                   mamba_conv_bias=generator.choice([False, True]), mamba_proj_bias=bias, projectors_bias=bias)
    if generator.choice([False, True]):
        changes.update(FACTORS)
        if changes.get("attention_bias"):
            changes["attention_in_multiplier"] = 1.0
        if bias:
            changes["ssm_in_multiplier"] = 1.0

from sizes import LINEAR, NO_PAD, SMALL, YARN
from transformers import BambaConfig as Config  # noqa: F401

# 3 heads for each of two groups, a state whose sizes are multiples of nothing.
BASE = dict(SMALL, **NO_PAD, attn_layer_indices=[1], mamba_n_heads=6, mamba_n_groups=2, mamba_d_state=13,
            mamba_chunk_size=32)
CASES = {
    "biases": dict(attention_bias=True, mlp_bias=True, mamba_proj_bias=True),
    "convolution_without_a_bias": dict(mamba_conv_bias=False),
    "one_group": dict(mamba_n_groups=1, mamba_d_conv=3),
    "heads_of_one_size": dict(mamba_n_heads=3, mamba_n_groups=1, mamba_d_head=32),
    "limited_steps": dict(time_step_limit=[0.3, 1.1]),
    "mamba_alone": dict(attn_layer_indices=None),
    "attention_alone": dict(attn_layer_indices=[0, 1, 2]),
    "attention_last": dict(attn_layer_indices=[2]),
    "linear_rotary": dict(rope_parameters=LINEAR),
    "all_turned": dict(rope_parameters=dict(rope_type="default", rope_theta=700.0, partial_rotary_factor=1.0)),
    "all_turned_and_scaled": dict(rope_parameters=dict(YARN, partial_rotary_factor=1.0)),
    "wide_heads": dict(hidden_size=240, num_attention_heads=3, num_key_value_heads=1),
}
PRIVATE = dict(attention_bias=True, mamba_proj_bias=True, mamba_n_groups=3, mamba_d_conv=3, tie_word_embeddings=True,
               rope_parameters=YARN)
GPU = {"one_group": dict(mamba_n_heads=12, mamba_n_groups=1, mamba_d_state=128, tie_word_embeddings=True)}
REFUSED = {
    "hidden_act": dict(hidden_act="gelu"),
    "mamba_n_groups": dict(mamba_n_groups=4),
    "z_loss_coefficient": dict(z_loss_coefficient=0.1),
}


def vary(generator, changes):
    """Draws the mixers and the state space model, whose convolution has one activation."""
    changes.pop("hidden_act", None)
    heads = generator.choice([count for count in (1, 2, 3, 4, 6) if 2 * changes["hidden_size"] % count == 0])
    layers = range(changes["num_hidden_layers"])
    changes.update(attn_layer_indices=[layer for layer in layers if generator.choice([False, False, True])],
                   mamba_n_groups=generator.choice([count for count in (1, 2, 3) if heads % count == 0]),
                   mamba_n_heads=heads, mamba_d_state=generator.choice([3, 8, 33]),
                   mamba_d_conv=generator.choice([1, 2, 4]), mamba_conv_bias=generator.choice([False, True]),
                   mamba_proj_bias=generator.choice([False, True]))

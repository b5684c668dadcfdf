"""What families with a gated delta rule have in common."""

MIXERS = ["linear_attention", "full_attention", "linear_attention"]

# Both families of Qwen3.5 have these.
QWEN3_5_CASES = {
    "biases": dict(attention_bias=True),
    "parts_of_positions": dict(rope_parameters=dict(rope_type="default", rope_theta=700.0, partial_rotary_factor=0.5,
                                                    mrope_section=[1, 1, 1], mrope_interleaved=True)),
    "one_head_of_values_each": dict(linear_num_key_heads=3, linear_num_value_heads=3),
    "long_convolution": dict(linear_conv_kernel_dim=7),
    "own_layer_types": dict(layer_types=None, num_hidden_layers=4),
    "delta_rule_alone": dict(layer_types=["linear_attention"] * 3),
    "wide_heads": dict(head_dim=80),
}


def vary(generator, changes):
    """Draws the mixers and the heads of the delta rule. Its convolution has one activation."""
    changes.pop("hidden_act", None)
    changes["layer_types"] = [generator.choice(["linear_attention", "linear_attention", "full_attention"])
                              for _ in range(changes["num_hidden_layers"])]
    key_heads = generator.choice([1, 2, 3])
    changes.update(linear_num_key_heads=key_heads, linear_num_value_heads=key_heads * generator.choice([1, 2, 3]),
                   linear_key_head_dim=generator.choice([4, 7, 16, 33]),
                   linear_value_head_dim=generator.choice([5, 8, 16, 40]),
                   linear_conv_kernel_dim=generator.choice([2, 3, 4]))

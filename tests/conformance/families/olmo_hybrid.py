from sizes import LINEAR, NO_PAD, SMALL, YARN
from transformers import OlmoHybridConfig as Config  # noqa: F401

MIXERS = ["linear_attention", "full_attention", "linear_attention"]
NO_ROTARY = dict(rope_type="default", rope_theta=None)
BASE = dict(SMALL, **NO_PAD, eos_token_id=None, linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=10,
            linear_value_head_dim=14, layer_types=MIXERS)
CASES = {
    "no_rotary": dict(rope_parameters=NO_ROTARY),
    "biases": dict(attention_bias=True),
    "strengths_up_to_1": dict(linear_allow_neg_eigval=False),
    "own_heads": dict(linear_num_key_heads=None, linear_num_value_heads=None, linear_key_head_dim=None,
                      linear_value_head_dim=None),
    "equal_widths": dict(linear_num_key_heads=3, linear_num_value_heads=3, linear_value_head_dim=10),
    "long_convolution": dict(linear_conv_kernel_dim=7),
    "delta_rule_last": dict(layer_types=["full_attention", "linear_attention", "linear_attention"]),
    "own_layer_types": dict(layer_types=None),
    "wide_heads": dict(hidden_size=240, num_attention_heads=3, num_key_value_heads=1),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(attention_bias=True, linear_num_key_heads=3, linear_num_value_heads=3, tie_word_embeddings=True,
               rope_parameters=YARN)
GPU = {
    "no_rotary": dict(rope_parameters=NO_ROTARY, linear_key_head_dim=96, linear_value_head_dim=192),
    "small_heads": dict(linear_key_head_dim=32, linear_value_head_dim=64, tie_word_embeddings=True),
}
REFUSED = {
    "hidden_act": dict(hidden_act="gelu"),
    "linear_num_value_heads": dict(linear_num_value_heads=5),
}


def vary(generator, changes):
    """Draws the mixers, of which a model has both, and the heads of the delta rule."""
    changes.pop("hidden_act", None)
    changes["num_hidden_layers"] = max(2, changes["num_hidden_layers"])
    mixers = ["linear_attention", "full_attention"]
    mixers += [generator.choice(mixers) for _ in range(changes["num_hidden_layers"] - 2)]
    generator.shuffle(mixers)
    key_heads = generator.choice([1, 2, 3])
    changes.update(layer_types=mixers, linear_num_key_heads=key_heads,
                   linear_num_value_heads=key_heads * generator.choice([1, 2, 3]),
                   linear_key_head_dim=generator.choice([4, 7, 16, 33]),
                   linear_value_head_dim=generator.choice([5, 8, 16, 40]),
                   linear_conv_kernel_dim=generator.choice([2, 3, 4]),
                   linear_allow_neg_eigval=generator.choice([False, True]))

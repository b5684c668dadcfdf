from sizes import LINEAR, NO_PAD, SMALL, YARN
from transformers import Lfm2Config as Config  # noqa: F401

MIXERS = ["conv", "full_attention", "conv"]
BASE = dict(SMALL, **NO_PAD, block_auto_adjust_ff_dim=False, layer_types=MIXERS)
CASES = {
    "biases": dict(conv_bias=True),
    "adjusted_width": dict(block_auto_adjust_ff_dim=True, block_multiple_of=8),
    "multiplied_width": dict(block_auto_adjust_ff_dim=True, block_multiple_of=4, block_ffn_dim_multiplier=1.3),
    "one_row": dict(conv_L_cache=1),
    "even_width": dict(conv_L_cache=4, conv_bias=True),
    "long_convolution": dict(conv_L_cache=7),
    "convolutions_alone": dict(layer_types=["conv"] * 3),
    "attention_last": dict(layer_types=["conv", "conv", "full_attention"]),
    "layers_by_number": dict(layer_types=None, full_attn_idxs=[0, 2]),
    "own_layers": dict(layer_types=None),
    "large_epsilon": dict(norm_eps=0.1),
    "wide_heads": dict(hidden_size=240, num_attention_heads=3, num_key_value_heads=1),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(conv_bias=True, conv_L_cache=4, tie_word_embeddings=True, rope_parameters=YARN,
               block_auto_adjust_ff_dim=True, block_multiple_of=8)
GPU = {
    "biases": dict(conv_bias=True, tie_word_embeddings=True),
    "even_width": dict(conv_L_cache=4),
}
REFUSED = {
    "hidden_act": dict(hidden_act="gelu"),
    "layer_types": dict(layer_types=["conv", "full_attention", "sliding_attention"]),
}


def vary(generator, changes):
    """Draws the mixers and their convolution. The MLP has one activation."""
    changes.pop("hidden_act", None)
    changes["layer_types"] = [generator.choice(["conv", "conv", "full_attention"])
                              for _ in range(changes["num_hidden_layers"])]
    changes.update(conv_L_cache=generator.choice([1, 2, 3, 4, 5]), conv_bias=generator.choice([False, True]))

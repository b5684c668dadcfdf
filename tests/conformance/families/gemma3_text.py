import random_configs
from sizes import NO_PAD, SMALL
from transformers import Gemma3TextConfig as Config  # noqa: F401


def rotary(full=None, sliding=None):
    return dict(full_attention=full or dict(rope_type="default", rope_theta=5e4),
                sliding_attention=sliding or dict(rope_type="default", rope_theta=700.0))


LINEAR = dict(rope_type="linear", rope_theta=5e4, factor=8.0)
YARN = dict(rope_type="yarn", rope_theta=5e4, factor=4.0, original_max_position_embeddings=32)

BASE = dict(SMALL, **NO_PAD, num_hidden_layers=4, head_dim=12, query_pre_attn_scalar=17,
            sliding_window=9, sliding_window_pattern=3)
CASES = {
    "two_rotaries": dict(rope_parameters=rotary()),
    "linear_rotary": dict(rope_parameters=rotary(LINEAR)),
    "yarn_in_both": dict(rope_parameters=rotary(YARN, dict(YARN, rope_theta=900.0))),
    "logit_cap": dict(final_logit_softcapping=1.5),
    "layer_types": dict(layer_types=["full_attention", "sliding_attention", "full_attention",
                                     "sliding_attention"]),
    "no_windows": dict(layer_types=["full_attention"] * 4),
    "head_dim_256": dict(head_dim=256, num_attention_heads=3, num_key_value_heads=1),
    "head_dim_80": dict(head_dim=80, num_attention_heads=3, num_key_value_heads=3),
    "biases": dict(attention_bias=True),
}
PRIVATE = dict(head_dim=96, num_attention_heads=3, num_key_value_heads=1, sliding_window=5,
               rope_parameters=rotary(LINEAR), final_logit_softcapping=2.0)
GPU = {"two_rotaries": dict(rope_parameters=rotary(LINEAR), head_dim=256, final_logit_softcapping=1.5)}
REFUSED = {
    "attn_logit_softcapping": dict(attn_logit_softcapping=50.0),
    "use_bidirectional_attention": dict(use_bidirectional_attention=True),
    "sliding_window": dict(sliding_window=-3),
}


def vary(generator, changes):
    """A rotary of its own for each kind of layer; a soft-cap of attention has no effect in transformers."""
    changes["attn_logit_softcapping"] = None
    random_configs.draw_layered_rotary(generator, changes)

import random_configs
from sizes import NO_PAD, SMALL, WIDE_HEADS, YARN
from transformers import Olmo3Config as Config  # noqa: F401

PLAIN = dict(rope_type="default", rope_theta=700.0)

BASE = dict(SMALL, **NO_PAD, num_hidden_layers=4, sliding_window=9)
CASES = {
    "yarn_where_all_is_seen": dict(rope_parameters=dict(full_attention=YARN,
                                                        sliding_attention=PLAIN)),
    "layer_types": dict(layer_types=["full_attention", "sliding_attention", "sliding_attention",
                                     "full_attention"]),
    "no_windows": dict(layer_types=["full_attention"] * 4),
    "wide_heads": WIDE_HEADS,
    "biases": dict(attention_bias=True),
}
PRIVATE = dict(WIDE_HEADS, sliding_window=5, attention_bias=True,
               rope_parameters=dict(full_attention=YARN, sliding_attention=PLAIN))
GPU = {"yarn_where_all_is_seen": dict(tie_word_embeddings=True, rope_parameters=dict(
    full_attention=YARN, sliding_attention=PLAIN))}
REFUSED = {
    "sliding_window": dict(sliding_window=-3),
    "hidden_act": dict(hidden_act="relu2"),
}


def vary(generator, changes):
    random_configs.draw_layered_rotary(generator, changes)

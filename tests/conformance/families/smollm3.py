from sizes import LINEAR, NO_PAD, SMALL, WIDE_HEADS, YARN
from transformers import SmolLM3Config as Config  # noqa: F401

WINDOW = dict(use_sliding_window=True, sliding_window=9)

BASE = dict(SMALL, **NO_PAD, num_hidden_layers=4)  # the fourth layer has no rotary positions
CASES = {
    "no_rotary_by_layer": dict(no_rope_layers=[0, 1, 0, 1]),
    "every_second_layer": dict(no_rope_layer_interval=2, rope_parameters=YARN),
    "window_where_nothing_turns": WINDOW,
    "window_by_layer": dict(WINDOW, layer_types=["sliding_attention", "full_attention"] * 2),
    "wide_heads": WIDE_HEADS,
    "biases": dict(attention_bias=True, mlp_bias=True),
}
PRIVATE = dict(WINDOW, no_rope_layers=[0, 1, 1, 0], attention_bias=True, rope_parameters=LINEAR,
               tie_word_embeddings=False)
GPU = {"window": dict(use_sliding_window=True, no_rope_layer_interval=2, attention_bias=True)}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "no_rope_layers": dict(no_rope_layers=[1, 0]),
}


def vary(generator, changes):
    changes["no_rope_layers"] = [generator.choice([0, 1]) for _ in range(changes["num_hidden_layers"])]
    changes["layer_types"] = None
    if not changes.get("use_sliding_window"):
        changes["sliding_window"] = None

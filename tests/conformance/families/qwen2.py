from sizes import SMALL, WIDE_HEADS
from transformers import Qwen2Config as Config  # noqa: F401

WINDOW = dict(use_sliding_window=True, sliding_window=9)

BASE = SMALL
CASES = {
    "wide_heads": WIDE_HEADS,
    "rotary_base": dict(rope_parameters=dict(rope_type="default", rope_theta=1e6)),
    "window_of_all": dict(WINDOW, max_window_layers=0),
    "window_of_the_last": dict(WINDOW, max_window_layers=2),
    "window_by_layer": dict(WINDOW, layer_types=["sliding_attention", "full_attention",
                                                 "sliding_attention"]),
}
PRIVATE = dict(WIDE_HEADS, **WINDOW, max_window_layers=1, tie_word_embeddings=True)
GPU = {"window_of_the_last": dict(use_sliding_window=True, sliding_window=70, max_window_layers=2,
                                  tie_word_embeddings=True)}
REFUSED = {"use_mrope": dict(use_mrope=True)}

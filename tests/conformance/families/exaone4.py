from sizes import LLAMA3, SMALL, WIDE_HEADS
from transformers import Exaone4Config as Config  # noqa: F401

# The fourth layer sees all tokens and does not turn.
BASE = dict(SMALL, num_hidden_layers=4, sliding_window=9)
CASES = {
    "layer_types": dict(layer_types=["full_attention", "sliding_attention", "full_attention",
                                     "full_attention"]),
    "no_layer_turns": dict(layer_types=["full_attention"] * 4),
    "no_window": dict(sliding_window=None, layer_types=["full_attention"] * 4),
    "every_second_layer": dict(sliding_window_pattern=2),
    "wide_heads": WIDE_HEADS,
    "head_dim": dict(head_dim=10),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
}
PRIVATE = dict(WIDE_HEADS, sliding_window=5, sliding_window_pattern=3, rope_parameters=LLAMA3,
               tie_word_embeddings=True)
GPU = {"every_second_layer": dict(sliding_window_pattern=2, tie_word_embeddings=True, head_dim=128)}
REFUSED = {
    "sliding_window": dict(sliding_window=-3),
    "hidden_act": dict(hidden_act="relu2"),
}

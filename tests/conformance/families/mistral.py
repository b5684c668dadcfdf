from sizes import LINEAR, SMALL, WIDE_HEADS
from transformers import MistralConfig as Config  # noqa: F401

BASE = dict(SMALL, sliding_window=None)
CASES = {
    "head_dim_apart": dict(head_dim=24),
    "wide_heads": WIDE_HEADS,
    "linear_rotary": dict(rope_parameters=LINEAR),
    "window": dict(sliding_window=8),
    "window_of_two": dict(sliding_window=2),
    "window_longer_than_all": dict(sliding_window=161),
}
PRIVATE = dict(sliding_window=8, head_dim=24, rope_parameters=LINEAR, tie_word_embeddings=True)
GPU = {"window": dict(sliding_window=70, head_dim=96, tie_word_embeddings=True)}
REFUSED = {"attention_bias": dict(attention_bias=True)}

from sizes import LINEAR, SMALL
from transformers import Qwen3Config as Config  # noqa: F401

WINDOW = dict(use_sliding_window=True, sliding_window=9)

BASE = dict(SMALL, head_dim=10)
CASES = {
    "wide_heads": dict(head_dim=80, num_attention_heads=3, num_key_value_heads=1),
    "biases": dict(attention_bias=True),
    "linear_rotary": dict(rope_parameters=LINEAR),
    "window_of_the_last": dict(WINDOW, max_window_layers=1),
    "window_by_layer": dict(WINDOW, layer_types=["sliding_attention", "full_attention",
                                                 "sliding_attention"]),
}
PRIVATE = dict(WINDOW, max_window_layers=1, attention_bias=True, tie_word_embeddings=True,
               rope_parameters=LINEAR)
GPU = {"head_dim_128": dict(head_dim=128, attention_bias=True, tie_word_embeddings=True)}
REFUSED = {"mlp_bias": dict(mlp_bias=True)}

from sizes import LINEAR, NO_PAD, SMALL, WIDE_HEADS
from transformers import Cohere2Config as Config  # noqa: F401

# The fourth layer sees all tokens and does not turn.
BASE = dict(SMALL, **NO_PAD, num_hidden_layers=4, sliding_window=9)
CASES = {
    "layer_types": dict(layer_types=["full_attention", "sliding_attention", "full_attention",
                                     "sliding_attention"]),
    "no_layer_turns": dict(layer_types=["full_attention"] * 4),
    "all_heads": dict(num_key_value_heads=None),
    "wide_heads": WIDE_HEADS,
    "biases": dict(attention_bias=True),
    "logit_scale": dict(logit_scale=1.0),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(WIDE_HEADS, sliding_window=5, attention_bias=True, logit_scale=0.5,
               rope_parameters=LINEAR, tie_word_embeddings=False)
GPU = {"biases": dict(attention_bias=True, tie_word_embeddings=False, logit_scale=0.25)}
REFUSED = {
    "sliding_window": dict(sliding_window=0),
    "hidden_act": dict(hidden_act="relu2"),
    "use_parallel_block": dict(use_parallel_block=False),
}

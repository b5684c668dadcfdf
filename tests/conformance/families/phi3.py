import random_configs
from sizes import SMALL, WIDE_HEADS
from transformers import Phi3Config as Config  # noqa: F401

BASE = dict(SMALL, pad_token_id=None)
# Examples of at most 64 tokens turn by the short factors, the one of 160 by the long ones.
LONG = dict(max_position_embeddings=512, original_max_position_embeddings=64,
            rope_parameters=dict(rope_type="longrope", rope_theta=10000.0,
                                 short_factor=[1.0, 1.05, 1.2, 1.6],
                                 long_factor=[1.0, 2.5, 6.0, 8.0]))
PARTIAL = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.5,
               short_factor=[1.0, 1.3], long_factor=[1.5, 7.0])
CASES = {
    "longrope": LONG,
    "partial_longrope": dict(LONG, rope_parameters=PARTIAL),  # as Phi-4-mini, which turns 3/4
    "window": dict(sliding_window=8),
    "wide_heads": WIDE_HEADS,
    "all_heads": dict(num_key_value_heads=None),
}
PRIVATE = dict(LONG, sliding_window=40, num_key_value_heads=3, tie_word_embeddings=True)
GPU = {
    "longrope": dict(max_position_embeddings=2048, original_max_position_embeddings=64,
                     rope_parameters=dict(LONG["rope_parameters"],
                                          short_factor=[1.0 + 0.02 * i for i in range(32)],
                                          long_factor=[1.0 + 0.4 * i for i in range(32)])),
    "window": dict(sliding_window=70, tie_word_embeddings=True),
}
REFUSED = {
    "attention_dropout": dict(attention_dropout=0.1),
    "hidden_act": dict(hidden_act="relu2"),
    "attention_bias": dict(attention_bias=True),
}


def vary(generator, changes):
    """Draws the kinds of rotary scaling of Phi-3. The length of pretraining is a key outside of rope_scaling."""
    rope = changes.get("rope_parameters")
    if rope is None:
        return
    while rope["rope_type"] not in ("default", "longrope"):
        rope = random_configs.draw_rotary(generator, random_configs.head_dim_of(changes), partial=True)
    changes["original_max_position_embeddings"] = rope.pop("original_max_position_embeddings", 16)
    changes["rope_parameters"] = rope

from sizes import DYNAMIC, NO_PAD, SMALL, WIDE_HEADS
from transformers import OlmoConfig as Config  # noqa: F401

BASE = dict(SMALL, **NO_PAD)
CASES = {
    "clipped": dict(clip_qkv=0.6),
    "clipped_with_biases": dict(clip_qkv=0.9, attention_bias=True),
    "wide_heads": dict(WIDE_HEADS, clip_qkv=0.6),
    "dynamic_rotary": dict(rope_parameters=DYNAMIC, max_position_embeddings=16),
}
PRIVATE = dict(WIDE_HEADS, clip_qkv=0.5, attention_bias=True)
GPU = {"clipped": dict(clip_qkv=0.6, attention_bias=True, tie_word_embeddings=True)}
REFUSED = {"clip_qkv": dict(clip_qkv=-1.0), "hidden_act": dict(hidden_act="relu2")}

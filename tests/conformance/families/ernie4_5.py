from sizes import LLAMA3, SMALL, WIDE_HEADS
from transformers import Ernie4_5Config as Config  # noqa: F401

BASE = dict(SMALL, head_dim=10, pad_token_id=None)
CASES = {
    "biases": dict(use_bias=True),
    "head_dim_of_the_hidden_size": dict(head_dim=None),
    "wide_heads": dict(WIDE_HEADS, head_dim=96),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
}
PRIVATE = dict(WIDE_HEADS, head_dim=96, use_bias=True, rope_parameters=LLAMA3, tie_word_embeddings=True)
GPU = {"head_dim_128": dict(head_dim=128, use_bias=True)}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "attention_bias": dict(attention_bias=True),
}

from sizes import LINEAR, LLAMA3, SMALL, WIDE_HEADS
from transformers import LlamaConfig as Config  # noqa: F401

BASE = SMALL
CASES = {
    "all_heads": dict(num_key_value_heads=6),
    "one_kv_head": dict(num_key_value_heads=1, head_dim=96),
    "wide_heads": WIDE_HEADS,
    "biases": dict(attention_bias=True, mlp_bias=True),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(WIDE_HEADS, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3,
               tie_word_embeddings=True)
REFUSED = {
    "pretraining_tp": dict(pretraining_tp=2),
    "hidden_act": dict(hidden_act="relu2"),
}

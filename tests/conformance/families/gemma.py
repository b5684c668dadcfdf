from sizes import LINEAR, NO_PAD, SMALL
from transformers import GemmaConfig as Config  # noqa: F401

BASE = dict(SMALL, **NO_PAD, head_dim=12)
CASES = {
    "head_dim_of_its_own": dict(head_dim=80, num_attention_heads=3, num_key_value_heads=1),
    "head_dim_256": dict(head_dim=256, num_attention_heads=3, num_key_value_heads=3),
    "erf": dict(hidden_act="gelu"),
    "biases": dict(attention_bias=True),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(head_dim=96, num_attention_heads=3, num_key_value_heads=1, attention_bias=True)
GPU = {"head_dim_256": dict(head_dim=256, num_attention_heads=3, num_key_value_heads=1)}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "use_bidirectional_attention": dict(use_bidirectional_attention=True),
}

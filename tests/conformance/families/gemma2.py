from sizes import NO_PAD, SMALL
from transformers import Gemma2Config as Config  # noqa: F401

# Caps low enough to bend, a window that hides much of the longest example.
BASE = dict(SMALL, **NO_PAD, head_dim=12, query_pre_attn_scalar=17, sliding_window=9,
            attn_logit_softcapping=0.7, final_logit_softcapping=1.5)
CASES = {
    "no_caps": dict(attn_logit_softcapping=None, final_logit_softcapping=None),
    "attention_cap_alone": dict(final_logit_softcapping=None),
    "logit_cap_alone": dict(attn_logit_softcapping=None),
    "window_of_two": dict(sliding_window=2),
    "no_windows": dict(layer_types=["full_attention"] * 3),
    "all_windows": dict(layer_types=["sliding_attention"] * 3),
    "head_dim_96": dict(head_dim=96, num_attention_heads=3, num_key_value_heads=1),
    "biases": dict(attention_bias=True),
}
PRIVATE = dict(head_dim=80, num_attention_heads=3, num_key_value_heads=3, sliding_window=5,
               final_logit_softcapping=None)
GPU = {
    "no_caps": dict(attn_logit_softcapping=None, final_logit_softcapping=None, head_dim=256),
    "caps_of_the_published": dict(attn_logit_softcapping=50.0, final_logit_softcapping=30.0,
                                  head_dim=256),
}
REFUSED = {
    "attn_logit_softcapping": dict(attn_logit_softcapping=-1.0),
    "use_bidirectional_attention": dict(use_bidirectional_attention=True),
    "hidden_activation": dict(hidden_activation="relu2"),
}

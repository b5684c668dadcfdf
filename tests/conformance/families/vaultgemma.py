from sizes import NO_PAD, SMALL
from transformers import VaultGemmaConfig as Config  # noqa: F401

# Caps low enough to bend, a window that hides much of the longest example.
BASE = dict(SMALL, **NO_PAD, head_dim=12, query_pre_attn_scalar=17, sliding_window=9,
            attn_logit_softcapping=0.7, final_logit_softcapping=1.5)
CASES = {
    "no_caps": dict(attn_logit_softcapping=None, final_logit_softcapping=None),
    "no_windows": dict(layer_types=["full_attention"] * 3),
    "all_windows": dict(layer_types=["sliding_attention"] * 3),
    "head_dim_96": dict(head_dim=96, num_attention_heads=3, num_key_value_heads=1),
    "biases": dict(attention_bias=True),
}
PRIVATE = dict(head_dim=80, num_attention_heads=3, num_key_value_heads=3, sliding_window=5,
               final_logit_softcapping=None)
GPU = {"no_caps": dict(attn_logit_softcapping=None, final_logit_softcapping=None, head_dim=256)}
REFUSED = {
    "attn_logit_softcapping": dict(attn_logit_softcapping=-1.0),
    "hidden_activation": dict(hidden_activation="relu2"),
}

from sizes import LINEAR, SMALL, WIDE_HEADS
from transformers import PhiConfig as Config  # noqa: F401

BASE = SMALL  # 4 of 8 elements of a head turn
QUARTER = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25)
CASES = {
    "all_heads": dict(num_key_value_heads=None),
    "wide_heads": dict(WIDE_HEADS, partial_rotary_factor=0.4),  # 32 of 80, as Phi-2
    "quarter_turned": dict(rope_parameters=QUARTER),
    "linear_rotary": dict(rope_parameters=dict(LINEAR, partial_rotary_factor=0.5)),
}
PRIVATE = dict(WIDE_HEADS, hidden_act="gelu", rope_parameters=QUARTER, tie_word_embeddings=True)
GPU = {"head_dim_80": dict(WIDE_HEADS, partial_rotary_factor=0.4, tie_word_embeddings=True)}
REFUSED = {
    "qk_layernorm": dict(qk_layernorm=True),
    "resid_pdrop": dict(resid_pdrop=0.1),
    "embd_pdrop": dict(embd_pdrop=0.1),
    "partial_rotary_factor": dict(rope_parameters=dict(QUARTER, partial_rotary_factor=0.4)),
}


def vary(generator, changes):
    changes["qk_layernorm"] = False

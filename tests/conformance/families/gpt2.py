from sizes import SMALL
from transformers import GPT2Config as Config  # noqa: F401

NO_DROPOUT = dict(attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)
BASE = dict(vocab_size=101, n_embd=48, n_layer=3, n_head=6, n_positions=1031, n_inner=76, tie_word_embeddings=False,
            bos_token_id=None, eos_token_id=None, **NO_DROPOUT)
CASES = {
    "inner_of_four": dict(n_inner=None),
    "all_positions": dict(n_positions=160),  # as many as the longest example has
    "scaled_by_layer": dict(scale_attn_by_inverse_layer_idx=True),
    "not_scaled": dict(scale_attn_weights=False),
    "both_scales": dict(scale_attn_by_inverse_layer_idx=True, scale_attn_weights=False),
    "upcast": dict(reorder_and_upcast_attn=True),
    "wide_heads": dict(n_embd=240, n_head=3),
    "odd_heads": dict(n_embd=45, n_head=5),
    "gelu": dict(activation_function="gelu"),
}
PRIVATE = dict(n_embd=240, n_head=3, n_inner=None, scale_attn_by_inverse_layer_idx=True, activation_function="silu",
               tie_word_embeddings=True)
LARGE = dict(vocab_size=1003, n_embd=384, n_inner=1000, n_positions=2048)
GPU = {
    "large": LARGE,
    "tied": dict(LARGE, n_head=3, tie_word_embeddings=True, scale_attn_by_inverse_layer_idx=True),
}
REFUSED = {
    "attn_pdrop": dict(attn_pdrop=0.1),
    "embd_pdrop": dict(embd_pdrop=0.1),
    "resid_pdrop": dict(resid_pdrop=0.1),
    "activation_function": dict(activation_function="relu"),
    "add_cross_attention": dict(add_cross_attention=True),
}
OWN_FALLBACKS = set(NO_DROPOUT)  # no dropout is computed, and none is meant by what is not set
NAMES = dict(hidden_size="n_embd", num_attention_heads="n_head", num_hidden_layers="n_layer",
             max_position_embeddings="n_positions", intermediate_size="n_inner")


def vary(generator, changes):
    """Gives the sizes their names of this family, and positions for the longest example."""
    changes["max_position_embeddings"] = generator.choice([160, 200])
    changes.setdefault("intermediate_size", generator.choice([None, 13, SMALL["intermediate_size"]]))
    for key, name in NAMES.items():
        changes[name] = changes.pop(key)
    for key in ("scale_attn_weights", "scale_attn_by_inverse_layer_idx"):
        changes[key] = generator.choice([False, True])

from sizes import LINEAR, SMALL
from transformers import FalconConfig as Config  # noqa: F401

SIZES = {key: SMALL[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers",
                                     "num_attention_heads", "max_position_embeddings")}
BASE = SIZES  # the 7B's: one key head, one norm
NEW = dict(new_decoder_architecture=True, num_kv_heads=2)
CASES = {
    "new_decoder": NEW,
    "new_decoder_of_one_norm": dict(NEW, num_ln_in_parallel_attn=1),  # as the 11B
    "new_decoder_with_biases": dict(NEW, bias=True, ffn_hidden_size=76),
    "biases": dict(bias=True),
    "one_branch_behind_the_other": dict(parallel_attn=False),
    "key_heads_for_all": dict(multi_query=False),
    "key_heads_for_all_behind": dict(multi_query=False, parallel_attn=False, bias=True),
    "wide_heads": dict(NEW, hidden_size=240, num_attention_heads=3, num_kv_heads=1),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(NEW, num_kv_heads=3, bias=True, ffn_hidden_size=50, activation="gelu_pytorch_tanh")
GPU = {
    "new_decoder": NEW,
    "new_decoder_with_biases": dict(NEW, bias=True, ffn_hidden_size=1000, tie_word_embeddings=False),
    "one_branch_behind_the_other": dict(parallel_attn=False),
}
REFUSED = {
    "alibi": dict(alibi=True),
    "hidden_dropout": dict(hidden_dropout=0.1),
    "num_ln_in_parallel_attn": dict(num_ln_in_parallel_attn=2),
    "apply_residual_connection_post_layernorm": dict(apply_residual_connection_post_layernorm=True),
}


def vary(generator, changes):
    """Its key heads go by other names: those of the old decoder are one or all."""
    heads = changes["num_attention_heads"]
    if generator.random() < 0.5:
        changes.update(new_decoder_architecture=True, parallel_attn=True)
    else:
        changes.update(num_kv_heads=heads, num_ln_in_parallel_attn=None)

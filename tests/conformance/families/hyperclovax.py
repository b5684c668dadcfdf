from sizes import LINEAR, SMALL, WIDE_HEADS
from transformers import HyperCLOVAXConfig as Config  # noqa: F401

BASE = dict(SMALL, embedding_multiplier=12.0, attention_multiplier=0.3, residual_multiplier=0.22,
            logits_scaling=0.4)
CASES = {
    "no_multipliers": dict(embedding_multiplier=1.0, attention_multiplier=None, residual_multiplier=1.0,
                           logits_scaling=1.0),
    "no_norms_after_branches": dict(use_post_norm=False),
    "head_dim": dict(head_dim=10),
    "all_heads": dict(num_key_value_heads=None),
    "wide_heads": dict(WIDE_HEADS, attention_multiplier=0.0125),
    "biases": dict(attention_bias=True, mlp_bias=True),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(num_attention_heads=3, num_key_value_heads=3, attention_bias=True, attention_multiplier=None,
               tie_word_embeddings=True, rope_parameters=LINEAR)
GPU = {
    "biases": dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "no_norms_after_branches": dict(use_post_norm=False, head_dim=128),
}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "attention_multiplier": dict(attention_multiplier=0.0),
}


def vary(generator, changes):
    changes["use_post_norm"] = generator.choice([False, True])

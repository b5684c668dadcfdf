from sizes import LINEAR, SMALL, WIDE_HEADS
from transformers import GraniteConfig as Config  # noqa: F401

# Granite 3.0 2B's, but for the attention's, which there is 1 / head_dim.
BASE = dict(SMALL, embedding_multiplier=12.0, attention_multiplier=0.3, residual_multiplier=0.22,
            logits_scaling=7.0)
CASES = {
    "no_multipliers": dict(embedding_multiplier=1.0, attention_multiplier=1.0,
                           residual_multiplier=1.0, logits_scaling=1.0),
    "embedding_multiplier_alone": dict(attention_multiplier=0.5, residual_multiplier=1.0,
                                       logits_scaling=1.0),
    "wide_heads": dict(WIDE_HEADS, attention_multiplier=0.0125),
    "biases": dict(attention_bias=True, mlp_bias=True),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(num_attention_heads=3, num_key_value_heads=3, attention_bias=True,
               tie_word_embeddings=True, rope_parameters=LINEAR)
GPU = {"biases": dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True)}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "attention_multiplier": dict(attention_multiplier=0.0),
}

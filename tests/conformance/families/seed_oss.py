from sizes import LINEAR, NO_PAD, SMALL, YARN
from transformers import SeedOssConfig as Config  # noqa: F401

BASE = dict(SMALL, **NO_PAD, head_dim=10, attention_dropout=0.0, residual_dropout=0.0)
CASES = {
    "no_bias": dict(attention_bias=False),
    "output_bias": dict(attention_out_bias=True),
    "mlp_bias": dict(mlp_bias=True),
    "wide_heads": dict(head_dim=80, num_attention_heads=3, num_key_value_heads=1),
    "yarn_rotary": dict(rope_parameters=YARN),
}
PRIVATE = dict(attention_out_bias=True, mlp_bias=True, rope_parameters=LINEAR, tie_word_embeddings=True)
GPU = {"head_dim_128": dict(head_dim=128, attention_out_bias=True, mlp_bias=True, tie_word_embeddings=True)}
REFUSED = {
    "attention_dropout": dict(attention_dropout=0.1),
    "residual_dropout": dict(residual_dropout=0.1),
    "hidden_act": dict(hidden_act="relu2"),
}

from sizes import LINEAR, SMALL, WIDE_HEADS, YARN
from transformers import GraniteSWAConfig as Config  # noqa: F401

# The first layer sees all tokens.
BASE = dict(SMALL, num_hidden_layers=4, sliding_window=9, embedding_multiplier=12.0, attention_multiplier=0.3,
            residual_multiplier=0.22, logits_scaling=7.0)
CASES = {
    "layer_types": dict(layer_types=["sliding_attention", "full_attention", "full_attention", "sliding_attention"]),
    "no_windows": dict(layer_types=["full_attention"] * 4),
    "no_layer_turns": dict(layer_rope_theta=[0.0] * 4),
    "one_layer_does_not_turn": dict(layer_rope_theta=[0, 300.0, 300.0, 300.0]),
    "two_bases": dict(layer_rope_theta=[50000.0, 300.0, 0.0, 300.0], rope_parameters=YARN),
    "all_heads": dict(num_key_value_heads=None),
    "wide_heads": dict(WIDE_HEADS, attention_multiplier=0.0125),
    "biases": dict(attention_bias=True, mlp_bias=True),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(WIDE_HEADS, attention_multiplier=0.0125, sliding_window=5, attention_bias=True,
               layer_rope_theta=[0.0, 300.0, 300.0, 9000.0], tie_word_embeddings=False)
GPU = {"biases": dict(attention_bias=True, mlp_bias=True, layer_rope_theta=[50000.0, 0, 300.0, 300.0],
                      tie_word_embeddings=True)}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "attention_multiplier": dict(attention_multiplier=0.0),
    "layer_rope_theta": dict(layer_rope_theta=[1.0, 2.0, 3.0, 4.0]),
    "sliding_window": dict(sliding_window=-3),
}


def vary(generator, changes):
    changes["layer_rope_theta"] = generator.choice([
        None, [generator.choice([0.0, 100.0, 5e5]) for _ in range(changes["num_hidden_layers"])]])

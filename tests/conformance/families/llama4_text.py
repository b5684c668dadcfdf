from sizes import LINEAR, LLAMA3, SMALL, YARN
from transformers import Llama4TextConfig as Config  # noqa: F401

# Chunks that divide no example, and temperatures that begin in short ones. The fourth layer turns nothing.
BASE = dict(SMALL, intermediate_size=20, intermediate_size_mlp=76, num_hidden_layers=4, head_dim=10, num_local_experts=5,
            num_experts_per_tok=1, interleave_moe_layer_step=2, attention_chunk_size=9, floor_scale=7, attn_scale=0.3)
CASES = {
    "several_experts_a_token": dict(num_experts_per_tok=3),
    "experts_in_all_layers": dict(interleave_moe_layer_step=1),
    "experts_by_layer": dict(moe_layers=[0, 3]),
    "no_layer_with_experts": dict(moe_layers=[]),
    "no_rotary_by_layer": dict(no_rope_layers=[0, 1, 0, 1]),
    "every_second_layer": dict(no_rope_layer_interval=2),
    "chunks_where_nothing_turns": dict(layer_types=["full_attention", "chunked_attention"] * 2,
                                       no_rope_layers=[1, 0, 1, 0]),
    "chunks_in_all_layers": dict(layer_types=["chunked_attention"] * 4, attention_chunk_size=50),
    "chunks_of_two_tokens": dict(attention_chunk_size=2),
    "no_temperature": dict(attn_temperature_tuning=False),
    "no_norms_of_heads": dict(use_qk_norm=False),
    "biases": dict(attention_bias=True),
    "wide_heads": dict(head_dim=80, num_attention_heads=3, num_key_value_heads=1),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
    "rotary_of_scout": dict(rope_parameters=dict(LLAMA3, low_freq_factor=1.0, high_freq_factor=1.0)),
    "yarn_rotary": dict(rope_parameters=YARN),
}
PRIVATE = dict(num_experts_per_tok=2, moe_layers=[1, 2], no_rope_layers=[1, 0, 1, 1], attention_chunk_size=13,
               attention_bias=True, rope_parameters=LINEAR, tie_word_embeddings=True)
GPU = {
    "all_experts": dict(num_experts_per_tok=5),  # no choice that rounding can turn
    "head_dim_128": dict(head_dim=128, attention_chunk_size=300, attention_bias=True, tie_word_embeddings=True),
}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "num_experts_per_tok": dict(num_experts_per_tok=6),
    "no_rope_layers": dict(no_rope_layers=[1, 0]),
    "layer_types": dict(layer_types=["sliding_attention"] * 4),
    "attn_scale": dict(attn_scale=-0.1),
    "mlp_bias": dict(mlp_bias=True),
}


def vary(generator, changes):
    """Draws what differs between layers, and the chunks."""
    layers = changes["num_hidden_layers"]
    changes["no_rope_layers"] = [generator.choice([0, 1]) for _ in range(layers)]
    changes["layer_types"] = [generator.choice(["chunked_attention", "full_attention"]) for _ in range(layers)]
    changes["moe_layers"] = [layer for layer in range(layers) if generator.choice([False, True])]
    changes.update(attention_chunk_size=generator.choice([2, 4, 11, 64, 500]), floor_scale=generator.choice([1, 5, 40]),
                   attn_temperature_tuning=generator.choice([False, True]),
                   intermediate_size_mlp=generator.choice([13, 36]))

from sizes import LLAMA3, SMALL, WIDE_HEADS
from transformers import AfmoeConfig as Config  # noqa: F401

# The fourth layer sees all tokens and does not turn.
BASE = dict(SMALL, num_hidden_layers=4, head_dim=10, sliding_window=9, num_experts=7, num_experts_per_tok=3,
            moe_intermediate_size=20, num_shared_experts=1)
CASES = {
    "embeddings_of_mup": dict(mup_enabled=True),
    "layer_types": dict(layer_types=["full_attention", "sliding_attention", "full_attention", "sliding_attention"]),
    "no_layer_turns": dict(layer_types=["full_attention"] * 4),
    "every_second_layer": dict(global_attn_every_n_layers=2),
    "all_heads": dict(num_key_value_heads=None),
    "all_layers_with_experts": dict(num_dense_layers=0),
    "no_layer_with_experts": dict(num_dense_layers=4),
    "scaled_weights": dict(route_scale=2.5),
    "two_shared_experts": dict(num_shared_experts=2),
    "wide_heads": dict(WIDE_HEADS, head_dim=80),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
}
PRIVATE = dict(WIDE_HEADS, head_dim=80, mup_enabled=True, sliding_window=5, global_attn_every_n_layers=3,
               num_dense_layers=2, route_scale=1.7, num_shared_experts=2, rope_parameters=LLAMA3,
               tie_word_embeddings=True)
GPU = {
    "all_experts": dict(num_experts_per_tok=7, tie_word_embeddings=True),  # no choice that rounding can turn
    "embeddings_of_mup": dict(mup_enabled=True, num_experts_per_tok=7, head_dim=128, global_attn_every_n_layers=2),
}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "attention_bias": dict(attention_bias=True),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
    "output_router_logits": dict(output_router_logits=True),
    "num_shared_experts": dict(num_shared_experts=0),
    "score_func": dict(score_func="softmax"),
}


def vary(generator, changes):
    """Draws the experts. The weight of one expert is 1, whose gradient in transformers is nothing but rounding."""
    changes["num_experts"] = generator.randint(2, 9)
    changes["num_experts_per_tok"] = generator.randint(2, changes["num_experts"])
    changes.update(attention_bias=False, output_router_logits=False, num_shared_experts=generator.randint(1, 3),
                   num_dense_layers=generator.randint(0, changes["num_hidden_layers"]),
                   route_scale=generator.choice([0.5, 1.0, 2.826]), mup_enabled=generator.choice([False, True]),
                   global_attn_every_n_layers=generator.randint(1, 4))

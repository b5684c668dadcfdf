from sizes import LLAMA3, SMALL, WIDE_HEADS, vary_groups
from transformers import ExaoneMoeConfig as Config  # noqa: F401

# The fourth layer sees all tokens and does not turn.
BASE = dict(SMALL, num_hidden_layers=4, sliding_window=9, num_experts=7, num_experts_per_tok=3,
            moe_intermediate_size=20, pad_token_id=None)
GROUPS = dict(num_experts=12, n_group=4, topk_group=2)
CASES = {
    "layer_types": dict(layer_types=["full_attention", "sliding_attention", "full_attention", "full_attention"]),
    "no_layer_turns": dict(layer_types=["full_attention"] * 4),
    "every_second_layer": dict(sliding_window_pattern=2),
    "kinds_of_layers": dict(mlp_layer_types=["sparse", "dense", "dense", "sparse"]),
    "no_layer_with_experts": dict(first_k_dense_replace=4),
    "groups": GROUPS,
    "not_normalized": dict(norm_topk_prob=False),
    "scaled_weights": dict(routed_scaling_factor=1.5),
    "two_shared_experts": dict(num_shared_experts=2),
    "wide_heads": WIDE_HEADS,
    "llama3_rotary": dict(rope_parameters=LLAMA3),
}
PRIVATE = dict(WIDE_HEADS, **GROUPS, sliding_window=5, sliding_window_pattern=3, num_shared_experts=2,
               mlp_layer_types=["dense", "sparse", "dense", "sparse"], rope_parameters=LLAMA3, tie_word_embeddings=True)
GPU = {
    "all_experts": dict(num_experts_per_tok=7, tie_word_embeddings=True),  # no choice that rounding can turn
    "groups": dict(GROUPS, sliding_window_pattern=2, head_dim=128),
}
REFUSED = {
    "sliding_window": dict(sliding_window=-3),
    "hidden_act": dict(hidden_act="relu2"),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
}


def vary(generator, changes):
    vary_groups(generator, changes, experts="num_experts", shared="num_shared_experts")
    changes["first_k_dense_replace"] = generator.randint(0, changes["num_hidden_layers"])

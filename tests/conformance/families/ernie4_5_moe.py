from sizes import LLAMA3, NO_PAD, SMALL, WIDE_HEADS
from transformers import Ernie4_5_MoeConfig as Config  # noqa: F401

BASE = dict(SMALL, **NO_PAD, moe_num_experts=7, moe_k=3, moe_intermediate_size=20, moe_num_shared_experts=1)
CASES = {
    "biases": dict(use_bias=True),
    "no_shared_expert": dict(moe_num_shared_experts=0),
    "two_shared_experts": dict(moe_num_shared_experts=2, use_bias=True),
    "all_layers_with_experts": dict(moe_layer_start_index=0),
    "no_layer_with_experts": dict(moe_layer_start_index=3),
    "every_second_layer": dict(num_hidden_layers=5, moe_layer_interval=2, moe_layer_end_index=3),
    "one_layer_with_experts": dict(num_hidden_layers=4, moe_layer_start_index=1, moe_layer_end_index=1),
    "least_sum_of_weights": dict(moe_norm_min=0.6),
    "wide_heads": WIDE_HEADS,
    "head_dim": dict(head_dim=10),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
}
PRIVATE = dict(WIDE_HEADS, use_bias=True, moe_num_shared_experts=3, moe_layer_start_index=0, moe_layer_interval=2,
               rope_parameters=LLAMA3, tie_word_embeddings=False)
GPU = {
    "all_experts": dict(moe_k=7, tie_word_embeddings=True),  # no choice that rounding can turn
    "biases": dict(use_bias=True, moe_k=7, head_dim=128),
}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "moe_k": dict(moe_k=8),
    "moe_norm_min": dict(moe_norm_min=0.0),
    "output_router_logits": dict(output_router_logits=True),
    "moe_gate": dict(moe_gate="hash"),
}


def vary(generator, changes):
    """Draws the experts and their layers. The weight of one expert is 1, whose gradient in transformers is nothing but
    rounding."""
    for key in ("num_experts", "num_experts_per_tok", "output_router_logits"):
        changes.pop(key, None)
    layers = changes["num_hidden_layers"]
    changes["moe_num_experts"] = generator.randint(2, 9)
    changes.update(moe_k=generator.randint(2, changes["moe_num_experts"]),
                   moe_num_shared_experts=generator.randint(0, 3), moe_norm_min=generator.choice([1e-12, 0.4]),
                   moe_layer_start_index=generator.randint(0, layers), moe_layer_interval=generator.randint(1, 3),
                   moe_layer_end_index=generator.choice([-1, layers - 1, layers // 2]))

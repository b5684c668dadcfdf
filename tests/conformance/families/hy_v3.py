from sizes import LLAMA3, SMALL
from transformers import HYV3Config as Config  # noqa: F401

BASE = dict(SMALL, head_dim=10, num_experts=7, num_experts_per_tok=3, moe_intermediate_size=20)
CASES = {
    "biases": dict(attention_bias=True, mlp_bias=True),
    "attention_biases_alone": dict(attention_bias=True),
    "kinds_of_layers": dict(mlp_layer_types=["sparse", "dense", "sparse"]),
    "no_layer_with_experts": dict(mlp_layer_types=["dense"] * 3),
    "two_shared_experts": dict(num_shared_experts=2),
    "unscaled_weights": dict(router_scaling_factor=1.0),
    "sum_in_the_models_dtype": dict(enable_moe_fp32_combine=False),
    "wide_heads": dict(head_dim=96, num_attention_heads=3, num_key_value_heads=1),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
}
PRIVATE = dict(head_dim=80, num_attention_heads=3, num_key_value_heads=1, attention_bias=True, mlp_bias=True,
               num_shared_experts=3, router_scaling_factor=1.7, mlp_layer_types=["sparse", "dense", "sparse"],
               rope_parameters=LLAMA3, tie_word_embeddings=True)
GPU = {
    "all_experts": dict(num_experts_per_tok=7, tie_word_embeddings=True),  # no choice that rounding can turn
    "biases": dict(attention_bias=True, mlp_bias=True, num_experts_per_tok=7, head_dim=128),
}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
    "output_router_logits": dict(output_router_logits=True),
}


def vary(generator, changes):
    """Draws the experts. The weight of one expert is 1, whose gradient in transformers is nothing but rounding."""
    changes["num_experts"] = generator.randint(2, 9)
    changes["num_experts_per_tok"] = generator.randint(2, changes["num_experts"])
    changes.update(output_router_logits=False, num_shared_experts=generator.randint(1, 3),
                   router_scaling_factor=generator.choice([0.5, 1.0, 2.826]),
                   mlp_layer_types=[generator.choice(["dense", "sparse"])
                                    for _ in range(changes["num_hidden_layers"])])

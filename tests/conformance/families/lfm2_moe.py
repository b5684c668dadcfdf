from sizes import LINEAR, NO_PAD, SMALL, YARN
from transformers import Lfm2MoeConfig as Config  # noqa: F401

MIXERS = ["conv", "full_attention", "conv"]
BASE = dict(SMALL, **NO_PAD, layer_types=MIXERS, num_dense_layers=1, num_experts=7, num_experts_per_tok=3,
            moe_intermediate_size=20)
CASES = {
    "biases": dict(conv_bias=True),
    "no_bias_of_experts": dict(use_expert_bias=False),
    "not_normalized": dict(norm_topk_prob=False),
    "scaled_weights": dict(routed_scaling_factor=2.5),
    "all_layers_with_experts": dict(num_dense_layers=0),
    "no_layer_with_experts": dict(num_dense_layers=3),
    "all_experts": dict(num_experts_per_tok=7),
    "even_width": dict(conv_L_cache=4, conv_bias=True),
    "convolutions_alone": dict(layer_types=["conv"] * 3),
    "attention_last": dict(layer_types=["conv", "conv", "full_attention"]),
    "large_epsilon": dict(norm_eps=0.1),
    "wide_heads": dict(hidden_size=240, num_attention_heads=3, num_key_value_heads=1),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(conv_bias=True, conv_L_cache=4, tie_word_embeddings=True, rope_parameters=YARN, num_experts_per_tok=4,
               routed_scaling_factor=1.7)
GPU = {
    "all_experts": dict(num_experts_per_tok=7, conv_bias=True),  # no choice that rounding can turn
    "even_width": dict(conv_L_cache=4, num_dense_layers=0),
}
REFUSED = {
    "hidden_act": dict(hidden_act="gelu"),
    "layer_types": dict(layer_types=["conv", "full_attention", "sliding_attention"]),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
}


def vary(generator, changes):
    """Draws the mixers, their convolution and the dense layers. The MLP has one activation. The weight of one expert
    is nearly 1, whose gradient in transformers is nothing but rounding."""
    changes.pop("hidden_act", None)
    layers = changes["num_hidden_layers"]
    experts = generator.randint(3, 9)
    changes["layer_types"] = [generator.choice(["conv", "conv", "full_attention"]) for _ in range(layers)]
    changes.update(conv_L_cache=generator.choice([1, 2, 3, 4, 5]), conv_bias=generator.choice([False, True]),
                   num_experts=experts, num_experts_per_tok=generator.randint(2, experts),
                   num_dense_layers=generator.randint(0, layers), use_expert_bias=generator.choice([False, True]))

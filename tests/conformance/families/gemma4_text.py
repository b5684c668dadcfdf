from sizes import NO_PAD, SMALL
from transformers import Gemma4TextConfig as Config  # noqa: F401

SLIDES, FULL = "sliding_attention", "full_attention"


def rotary(full=None, sliding=None):
    return dict(full_attention=full or dict(rope_type="proportional", rope_theta=5e4, partial_rotary_factor=0.5),
                sliding_attention=sliding or dict(rope_type="default", rope_theta=700.0))


LINEAR = dict(rope_type="linear", rope_theta=5e4, factor=8.0)
YARN = dict(rope_type="yarn", rope_theta=5e4, factor=4.0, original_max_position_embeddings=32)

# Heads of 10 elements within a window of 9 tokens, of 16 elsewhere.
PLAIN = dict(SMALL, **NO_PAD, num_hidden_layers=4, head_dim=10, global_head_dim=16, sliding_window=9,
             hidden_size_per_layer_input=0, vocab_size_per_layer_input=101,
             layer_types=[SLIDES, FULL, SLIDES, FULL])
BASE = PLAIN
EXPERTS = dict(enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=13)
INPUTS = dict(hidden_size_per_layer_input=7)
SHARED = dict(num_hidden_layers=6, num_kv_shared_layers=3, layer_types=[SLIDES, FULL, SLIDES, SLIDES, FULL, FULL])
CASES = {
    "layer_inputs": INPUTS,
    "shared_keys": SHARED,
    "double_wide": dict(SHARED, use_double_wide_mlp=True),
    "keys_as_values": dict(attention_k_eq_v=True, num_global_key_value_heads=3),
    "keys_as_values_shared": dict(SHARED, attention_k_eq_v=True, num_global_key_value_heads=1),
    "as_published": dict(SHARED, **INPUTS, use_double_wide_mlp=True, final_logit_softcapping=1.5),
    "equal_heads": dict(global_head_dim=10),
    "own_layers": dict(num_hidden_layers=6, layer_types=None),
    "no_windows": dict(layer_types=[FULL] * 4),
    "two_rotaries": dict(rope_parameters=rotary()),
    "slowed_rotary": dict(rope_parameters=rotary(dict(rope_type="proportional", rope_theta=5e4, factor=3.0,
                                                      partial_rotary_factor=0.3))),
    "linear_rotary": dict(rope_parameters=rotary(LINEAR)),
    "yarn_in_both": dict(rope_parameters=rotary(YARN, dict(YARN, rope_theta=900.0))),
    "logit_cap": dict(final_logit_softcapping=1.5),
    "biases": dict(attention_bias=True, attention_k_eq_v=True),
    "biases_shared": dict(SHARED, attention_bias=True),
    "wide_heads": dict(head_dim=80, global_head_dim=96, num_attention_heads=3, num_key_value_heads=1),
    "large_epsilon": dict(INPUTS, rms_norm_eps=0.1),
    "experts": EXPERTS,
    # The norm of one expert's output removes the expert's scale, whose gradient then is of the epsilon alone.
    "one_expert_a_token": dict(EXPERTS, top_k_experts=1, hidden_activation="silu", rms_norm_eps=0.1),
    "all_experts": dict(EXPERTS, top_k_experts=5),
    "experts_and_layer_inputs": dict(EXPERTS, **INPUTS, rms_norm_eps=0.1),
    "experts_and_double_wide": dict(EXPERTS, **SHARED, use_double_wide_mlp=True),
    "as_published_with_experts": dict(EXPERTS, attention_k_eq_v=True, num_global_key_value_heads=1,
                                      final_logit_softcapping=1.5),
    "experts_that_are_off": dict(EXPERTS, enable_moe_block=False),
}
PRIVATE = dict(SHARED, **INPUTS, **EXPERTS, use_double_wide_mlp=True, attention_k_eq_v=True, num_global_key_value_heads=1,
               sliding_window=5, final_logit_softcapping=2.0, tie_word_embeddings=True)
GPU = {
    "as_published": dict(SHARED, hidden_size_per_layer_input=40, vocab_size_per_layer_input=1003,
                         use_double_wide_mlp=True, head_dim=256, global_head_dim=512, final_logit_softcapping=1.5),
    "keys_as_values": dict(attention_k_eq_v=True, num_global_key_value_heads=1, head_dim=64, global_head_dim=128),
    # No choice that rounding can turn. With a small epsilon transformers' own gradients are off by up to 0.4.
    "all_experts": dict(EXPERTS, top_k_experts=5, moe_intermediate_size=80, rms_norm_eps=0.1),
}
REFUSED = {
    "num_experts": dict(EXPERTS, num_experts=None),
    "top_k_experts": dict(EXPERTS, top_k_experts=6),
    "moe_intermediate_size": dict(EXPERTS, moe_intermediate_size=None),
    "use_bidirectional_attention": dict(use_bidirectional_attention="all"),
    "vocab_size_per_layer_input": dict(hidden_size_per_layer_input=4, vocab_size_per_layer_input=50),
}


def vary(generator, changes):
    """Draws the kinds of layers, whose keys they read, the inputs of layers, and experts. A norm of one element is its
    sign, which rounding changes. The gradients of experts' scales nearly cancel, and norms of small rows enlarge what
    rounding leaves of them."""
    for key in ("num_experts", "num_experts_per_tok", "moe_intermediate_size"):
        changes.pop(key, None)
    if generator.choice([False, True]):
        count = generator.choice([3, 5, 8])
        changes.update(enable_moe_block=True, num_experts=count, top_k_experts=generator.randint(2, count),
                       moe_intermediate_size=generator.choice([11, 24]), rms_norm_eps=0.1)
    layers = changes["num_hidden_layers"] + 1
    first = generator.randint(1, layers)
    kinds = [generator.choice([SLIDES, FULL]) for _ in range(layers)]
    kinds[-1] = kinds[0] = FULL
    kinds[first:-1] = [kind if kind in kinds[:first] else FULL for kind in kinds[first:-1]]
    changes.update(num_hidden_layers=layers, layer_types=kinds, num_kv_shared_layers=layers - first,
                   use_double_wide_mlp=generator.choice([False, True]),
                   global_head_dim=generator.choice([6, 16, 30]), attention_k_eq_v=generator.choice([False, True]),
                   num_global_key_value_heads=generator.choice([1, changes["num_attention_heads"]]),
                   hidden_size_per_layer_input=generator.choice([0, 3, 5]),
                   vocab_size_per_layer_input=changes.get("vocab_size", BASE["vocab_size"]))
    changes.pop("rope_parameters", None)
    if generator.choice([False, True]):
        changes["rope_parameters"] = rotary(sliding=generator.choice([None, LINEAR]))

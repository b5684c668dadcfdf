from sizes import NO_PAD, SMALL
from transformers import Gemma3nTextConfig as Config  # noqa: F401

SLIDES, FULL = "sliding_attention", "full_attention"


def rotary(full=None, sliding=None):
    return dict(full_attention=full or dict(rope_type="default", rope_theta=5e4),
                sliding_attention=sliding or dict(rope_type="default", rope_theta=700.0))


LINEAR = dict(rope_type="linear", rope_theta=5e4, factor=8.0)
YARN = dict(rope_type="yarn", rope_theta=5e4, factor=4.0, original_max_position_embeddings=32)

BASE = dict(SMALL, **NO_PAD, num_hidden_layers=4, head_dim=10, sliding_window=9, hidden_size_per_layer_input=7,
            vocab_size_per_layer_input=101, layer_types=[SLIDES, FULL, SLIDES, FULL], num_kv_shared_layers=0,
            altup_num_inputs=3, laurel_rank=5, final_logit_softcapping=30.0,
            activation_sparsity_pattern=[0.0] * 4)
SHARED = dict(num_hidden_layers=6, num_kv_shared_layers=3, layer_types=[SLIDES, FULL, SLIDES, SLIDES, FULL, FULL],
              activation_sparsity_pattern=[0.0] * 6)
CASES = {
    "sparse_gates": dict(activation_sparsity_pattern=[0.95, 0.6, 0.3, 0.0]),
    "shared_keys": SHARED,
    "four_copies": dict(altup_num_inputs=4),
    "another_active_copy": dict(altup_num_inputs=4, altup_active_idx=2),
    "own_widths": dict(intermediate_size=[76, 52, 76, 90]),
    "more_input_rows": dict(vocab_size_per_layer_input=130),
    "as_published": dict(SHARED, altup_num_inputs=4, activation_sparsity_pattern=[0.95, 0.95, 0.95, 0.0, 0.0, 0.0]),
    "own_layers": dict(num_hidden_layers=6, layer_types=None, activation_sparsity_pattern=None),
    "no_windows": dict(layer_types=[FULL] * 4),
    "two_rotaries": dict(rope_parameters=rotary()),
    "linear_rotary": dict(rope_parameters=rotary(LINEAR)),
    "yarn_in_both": dict(rope_parameters=rotary(YARN, dict(YARN, rope_theta=900.0))),
    "logit_cap": dict(final_logit_softcapping=1.5),
    "biases": dict(attention_bias=True),
    "biases_shared": dict(SHARED, attention_bias=True),
    "wide_heads": dict(head_dim=80, num_attention_heads=3, num_key_value_heads=1),
    "large_epsilon": dict(rms_norm_eps=0.1),
}
PRIVATE = dict(SHARED, activation_sparsity_pattern=[0.9, 0.5, 0.0, 0.0, 0.7, 0.0], altup_num_inputs=4, altup_active_idx=1,
               intermediate_size=[76, 52, 76, 90, 76, 76], attention_bias=True, sliding_window=5,
               final_logit_softcapping=2.0, tie_word_embeddings=True)
GPU = {
    "as_published": dict(SHARED, hidden_size_per_layer_input=40, altup_num_inputs=4,
                         laurel_rank=64, head_dim=256,
                         activation_sparsity_pattern=[0.95, 0.95, 0.95, 0.0, 0.0, 0.0]),
}
REFUSED = {
    "altup_correct_scale": dict(altup_correct_scale=False),
    "altup_num_inputs": dict(altup_num_inputs=1),
    "altup_active_idx": dict(altup_active_idx=3),
    "altup_coef_clip": dict(altup_coef_clip=0.0),
    "activation_sparsity_pattern": dict(activation_sparsity_pattern=[1.0, 0.0, 0.0, 0.0]),
}


def vary(generator, changes):
    """Draws the kinds of layers, whose keys they read, their widths and cutoffs, and the copies of the hidden state. A
    norm of few elements enlarges the rounding of small ones. So does that of a row with one small gate alone, and few of
    13 gates are above a high cutoff."""
    layers = changes["num_hidden_layers"] + 1
    first = generator.randint(1, layers)
    kinds = [generator.choice([SLIDES, FULL]) for _ in range(layers)]
    kinds[first:] = [kind if kind in kinds[:first] else kinds[0] for kind in kinds[first:]]
    copies = generator.choice([2, 3, 4])
    width = changes.get("intermediate_size", BASE["intermediate_size"])
    shares = [0.0, 0.4, 0.8] if width > 60 else [0.0, 0.4]
    changes.update(num_hidden_layers=layers, layer_types=kinds, num_kv_shared_layers=layers - first,
                   intermediate_size=[generator.choice([width, width + 7]) for _ in range(layers)],
                   activation_sparsity_pattern=[generator.choice(shares) for _ in range(layers)],
                   altup_num_inputs=copies, altup_active_idx=generator.randint(0, copies - 1),
                   laurel_rank=generator.choice([5, 16]),
                   hidden_size_per_layer_input=generator.choice([5, 12]),
                   vocab_size_per_layer_input=changes.get("vocab_size", BASE["vocab_size"]) + generator.choice([0, 9]))
    changes.pop("rope_parameters", None)
    if changes.get("final_logit_softcapping", 1) is None:  # transformers takes a number alone
        del changes["final_logit_softcapping"]
    if generator.choice([False, True]):
        changes["rope_parameters"] = rotary(sliding=generator.choice([None, LINEAR]))

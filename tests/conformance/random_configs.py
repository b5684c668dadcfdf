"""Random configurations: sizes and options of a family, drawn together.

Each drawn value is one that packtrain takes, so that a refusal is a failure too.
"""

import copy
import random

import family

HEAD_DIMS = [4, 6, 10, 12, 16, 22, 34, 80]
ACTIVATIONS = ["silu", "gelu", "gelu_new", "gelu_pytorch_tanh"]
YES_OR_NO = [False, True]
WINDOWS = [2, 5, 33, 1000]
EPSILONS = [1e-6, 1e-5, 1e-3, 0.1]
# Values that a key of a config may have. A case changes about a third of the keys.
OPTIONS = {
    "activation": ACTIVATIONS,
    "activation_function": ACTIVATIONS,
    "attention_bias": YES_OR_NO,
    "attention_multiplier": [0.05, 0.3, 1.0],
    "attn_logit_softcapping": [None, 0.4, 3.0, 50.0],
    "bias": YES_OR_NO,
    "clip_qkv": [None, 0.7, 3.0],
    "embedding_multiplier": [0.5, 1.0, 12.0],
    "ffn_hidden_size": [19, 64],
    "final_logit_softcapping": [None, 0.8, 30.0],
    "hidden_act": ACTIVATIONS,
    "hidden_activation": ACTIVATIONS,
    "intermediate_size": [13, 36, 97],
    "layer_norm_eps": EPSILONS,
    "layer_norm_epsilon": EPSILONS,
    "lm_head_bias": YES_OR_NO,
    "logits_scaling": [0.5, 1.0, 7.0],
    "mlp_bias": YES_OR_NO,
    "moe_intermediate_size": [11, 24],
    "multi_query": YES_OR_NO,
    "norm_epsilon": EPSILONS,
    "norm_topk_prob": YES_OR_NO,
    "num_ln_in_parallel_attn": [None, 1],
    "parallel_attn": YES_OR_NO,
    "qk_layernorm": YES_OR_NO,
    "qkv_bias": YES_OR_NO,
    "query_pre_attn_scalar": [9, 30, 100],
    "residual_multiplier": [0.1, 1.0, 1.5],
    "rms_norm_eps": EPSILONS,
    "routed_scaling_factor": [0.5, 1.0, 2.5],
    "router_aux_loss_coef": [0.0, 0.02, 1.0],
    "shared_expert_intermediate_size": [5, 15, 40],
    "tie_word_embeddings": YES_OR_NO,
    "use_bias": YES_OR_NO,
    "use_parallel_residual": YES_OR_NO,
    "use_qk_norm": YES_OR_NO,
    "use_qkv_bias": YES_OR_NO,
    "vocab_size": [2, 3, 37, 64, 257],
}
EXPERTS = [1, 2, 5, 8]
KINDS = ["default", "linear", "dynamic", "llama3", "yarn", "longrope"]
OPTION_SHARE = 0.35


def is_set(generator):
    return generator.random() < OPTION_SHARE


def draw_sizes(generator, known):
    """Heads, their width and groups, and layers."""
    key_heads, group, head_dim = generator.choice([1, 2, 3]), generator.choice([1, 2, 3]), generator.choice(HEAD_DIMS)
    heads = key_heads * group
    sizes = {"num_attention_heads": heads, "num_hidden_layers": generator.choice([1, 2, 4]),
             "max_position_embeddings": generator.choice([16, 512])}
    if "head_dim" in known:
        sizes.update(head_dim=head_dim, hidden_size=heads * generator.choice([9, 12, 15]))
    else:
        sizes["hidden_size"] = heads * head_dim
    for key in ("num_key_value_heads", "num_kv_heads"):
        if key in known:
            sizes[key] = key_heads
    return sizes


def head_dim_of(changes):
    return changes.get("head_dim") or changes["hidden_size"] // changes["num_attention_heads"]


def draw_partial(generator, head_dim):
    """Draws the part of a head that rotary positions turn: an even number of elements."""
    parts = [part for part in (0.25, 0.5, 0.75) if head_dim * part % 2 == 0]
    return generator.choice([*parts, 1.0])


def draw_rotary(generator, head_dim, partial=False, kinds=KINDS):
    """A kind of rotary scaling and its numbers."""
    part = draw_partial(generator, head_dim) if partial else 1.0
    turned = int(head_dim * part)
    if turned == 2:  # dynamic scaling divides by turned - 2
        kinds = [kind for kind in kinds if kind != "dynamic"]
    rope = {"rope_type": generator.choice(kinds), "rope_theta": generator.choice([100.0, 1e4, 5e5])}
    if partial:
        rope["partial_rotary_factor"] = part
    return rope | {
        "default": dict,
        "linear": lambda: {"factor": generator.choice([1.0, 2.5, 16.0])},
        "dynamic": lambda: {"factor": generator.choice([1.0, 2.5, 16.0])},
        "llama3": lambda: draw_llama3(generator),
        "yarn": lambda: draw_yarn(generator),
        "longrope": lambda: draw_longrope(generator, turned),
    }[rope["rope_type"]]()


def draw_layered_rotary(generator, changes):
    """For families with a rotary of its own for each kind of layer."""
    if is_set(generator):
        changes["rope_parameters"] = {kind: draw_rotary(generator, head_dim_of(changes))
                                      for kind in ("full_attention", "sliding_attention")}


def draw_llama3(generator):
    return {"factor": generator.choice([2.0, 32.0]), "low_freq_factor": 1.0,
            "high_freq_factor": generator.choice([2.0, 4.0]),
            "original_max_position_embeddings": generator.choice([20, 100])}


def draw_yarn(generator):
    more = generator.choice([{}, {"mscale": 0.7, "mscale_all_dim": 1.2}, {"attention_factor": 1.3},
                             {"beta_fast": 16.0, "beta_slow": 2.0}])
    return {"factor": generator.choice([1.5, 40.0]),
            "original_max_position_embeddings": generator.choice([20, 100]), **more}


def draw_longrope(generator, turned):
    factors = {key: [round(generator.uniform(1, 8), 2) for _ in range(turned // 2)]
               for key in ("short_factor", "long_factor")}
    return {"original_max_position_embeddings": generator.choice([6, 50]),
            "factor": generator.choice([2.0, 8.0]), **factors}


def draw_windows(generator, base, changes):
    """Draws which layers have a window, and its number of tokens."""
    if "sliding_window" not in base or not is_set(generator):
        return {}
    layers = changes["num_hidden_layers"]
    windows = {"sliding_window": generator.choice(WINDOWS)}
    if "use_sliding_window" in base:
        windows["use_sliding_window"] = True
    if "max_window_layers" in base:
        windows["max_window_layers"] = generator.randint(0, layers)
    if "layer_types" in base and is_set(generator):
        windows["layer_types"] = [generator.choice(["full_attention", "sliding_attention"])
                                  for _ in range(layers)]
    return windows


def draw_experts(generator, known):
    count = generator.choice(EXPERTS)
    changes = {key: count for key in ("num_experts", "num_local_experts", "n_routed_experts") if key in known}
    if not changes:
        return {}
    changes["num_experts_per_tok"] = generator.randint(1, count)
    if "output_router_logits" in known:
        changes["output_router_logits"] = generator.choice(YES_OR_NO)
    if "mlp_only_layers" in known and is_set(generator):
        dense = generator.choice([{"mlp_only_layers": [1]}, {"decoder_sparse_step": 2}, {"decoder_sparse_step": 3}])
        changes.update(dense, num_hidden_layers=4)
    return changes


def draw(name, seed):
    """A case of this family. `vary(generator, changes)` of its file draws what is its own."""
    module = family.load(name)
    generator = random.Random(f"{name} {seed}")
    base = module.Config(**copy.deepcopy(module.BASE)).to_dict()
    changes = {**draw_sizes(generator, base), **draw_experts(generator, base)}
    for key, values in OPTIONS.items():
        if key in base and is_set(generator):
            changes[key] = generator.choice(values)
    rope = base.get("rope_parameters") or {}
    changes.update(draw_windows(generator, base, changes))
    has_part = "partial_rotary_factor" in rope
    if has_part or "rope_theta" in rope and is_set(generator):
        changes["rope_parameters"] = draw_rotary(generator, head_dim_of(changes), has_part)
    if hasattr(module, "vary"):
        module.vary(generator, changes)
    return family.Case(name, f"random_{seed}", changes)

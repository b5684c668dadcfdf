from sizes import LINEAR, LLAMA3, NO_PAD, SMALL
from transformers import HunYuanMoEV1Config as Config  # noqa: F401

# The scaling of published models: with alpha the base is fixed.
ALPHA = dict(rope_type="dynamic", rope_theta=10000.0, factor=1.0, alpha=40.0)

BASE = dict(SMALL, **NO_PAD, intermediate_size=20, head_dim=10, num_experts=7, moe_topk=3)
CASES = {
    "all_heads": dict(num_key_value_heads=None),
    "wide_heads": dict(head_dim=80, num_attention_heads=3, num_key_value_heads=1),
    "biases": dict(attention_bias=True),
    "numbers_of_layers": dict(moe_topk=[3, 3, 3]),
    "all_experts": dict(moe_topk=7),
    "alpha": dict(rope_parameters=ALPHA),
    "linear_rotary": dict(rope_parameters=LINEAR),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
    "large_epsilon": dict(rms_norm_eps=0.1),
}
PRIVATE = dict(head_dim=16, attention_bias=True, num_experts=5, moe_topk=2, rope_parameters=ALPHA,
               tie_word_embeddings=True)
GPU = {"all_experts": dict(head_dim=128, intermediate_size=136, moe_topk=7, rope_parameters=ALPHA,
                           tie_word_embeddings=True)}  # no choice that rounding can turn
REFUSED = {
    "use_qk_norm": dict(use_qk_norm=False),
    "use_cla": dict(use_cla=True),
    "use_mla": dict(use_mla=True),
    "moe_topk": dict(moe_topk=8),
    "num_shared_expert": dict(num_shared_expert=[2, 2, 2]),
    "moe_intermediate_size": dict(moe_intermediate_size=[30, 30, 30]),
}


def vary(generator, changes):
    """Draws the experts. The weight of one expert is 1, whose gradient in transformers is nothing but rounding."""
    for key in ("num_experts_per_tok", "num_local_experts"):
        changes.pop(key, None)
    changes["num_experts"] = generator.randint(2, 9)
    changes["moe_topk"] = generator.randint(2, changes["num_experts"])

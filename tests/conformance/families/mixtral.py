from sizes import LINEAR, SMALL, WIDE_HEADS
from transformers import MixtralConfig as Config  # noqa: F401

BASE = dict(SMALL, num_local_experts=5, num_experts_per_tok=2, sliding_window=None)
CASES = {
    # Not one expert: its weight is 1, whose gradient in transformers is nothing but rounding.
    "three_experts_a_token": dict(num_experts_per_tok=3),
    "all_experts": dict(num_experts_per_tok=5),
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5),
    "wide_heads": WIDE_HEADS,
    "window": dict(sliding_window=8),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(num_local_experts=7, num_experts_per_tok=3, output_router_logits=True,
               router_aux_loss_coef=0.1, head_dim=24, tie_word_embeddings=True)
GPU = {
    "all_experts": dict(num_experts_per_tok=5, sliding_window=70),  # no choice that rounding can turn
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5),
}
REFUSED = {
    "router_jitter_noise": dict(router_jitter_noise=0.1),
    "num_experts_per_tok": dict(num_experts_per_tok=6),
}


def vary(generator, changes):
    """Never draws one expert a token: see CASES."""
    changes["num_local_experts"] += 1
    changes["num_experts_per_tok"] = max(2, changes["num_experts_per_tok"])

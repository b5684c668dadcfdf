from sizes import LINEAR, NO_PAD, SMALL, WIDE_HEADS
from transformers import FlexOlmoConfig as Config  # noqa: F401

BASE = dict(SMALL, **NO_PAD, intermediate_size=20, num_experts=7, num_experts_per_tok=3)
CASES = {
    "normalized": dict(norm_topk_prob=True),
    "all_heads": dict(num_key_value_heads=None),
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5),
    "wide_heads": WIDE_HEADS,
    "biases": dict(attention_bias=True),
}
PRIVATE = dict(num_experts=5, num_experts_per_tok=2, attention_bias=True, tie_word_embeddings=True,
               output_router_logits=True, router_aux_loss_coef=0.1, rope_parameters=LINEAR)
GPU = {
    "all_experts": dict(num_experts_per_tok=7, tie_word_embeddings=True),  # no choice that rounding can turn
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5, num_experts_per_tok=7),
}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
    "router_aux_loss_coef": dict(router_aux_loss_coef=-1.0),
}


def vary(generator, changes):
    """A norm follows the experts. Of one expert a token, the gradient of the weight is nothing but rounding."""
    changes["num_experts"] = generator.randint(2, 9)
    changes["num_experts_per_tok"] = generator.randint(2, changes["num_experts"])

from sizes import LINEAR, NO_PAD, SMALL, WIDE_HEADS
from transformers import OlmoeConfig as Config  # noqa: F401

BASE = dict(SMALL, **NO_PAD, intermediate_size=20, num_experts=7, num_experts_per_tok=3)
CASES = {
    "normalized": dict(norm_topk_prob=True),
    "all_heads": dict(num_key_value_heads=None),
    "one_expert_a_token": dict(num_experts_per_tok=1),
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5),
    "wide_heads": WIDE_HEADS,
    "biases": dict(attention_bias=True),
}
PRIVATE = dict(num_experts=5, num_experts_per_tok=2, attention_bias=True, tie_word_embeddings=True,
               output_router_logits=True, router_aux_loss_coef=0.1, rope_parameters=LINEAR)
GPU = {
    "all_experts": dict(num_experts_per_tok=7, tie_word_embeddings=True),
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5, norm_topk_prob=True),
}
REFUSED = {
    "clip_qkv": dict(clip_qkv=1.0),
    "hidden_act": dict(hidden_act="relu2"),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
}


def vary(generator, changes):
    changes["clip_qkv"] = None

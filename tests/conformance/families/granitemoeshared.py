from sizes import LINEAR, SMALL, WIDE_HEADS
from transformers import GraniteMoeSharedConfig as Config  # noqa: F401

BASE = dict(SMALL, intermediate_size=20, num_local_experts=9, num_experts_per_tok=4, shared_intermediate_size=15,
            embedding_multiplier=12.0, attention_multiplier=0.3, residual_multiplier=0.22,
            logits_scaling=6.0)
CASES = {
    "no_multipliers": dict(embedding_multiplier=1.0, attention_multiplier=1.0,
                           residual_multiplier=1.0, logits_scaling=1.0),
    "no_shared_expert": dict(shared_intermediate_size=0),
    "one_expert_a_token": dict(num_experts_per_tok=1),
    "wide_heads": dict(WIDE_HEADS, attention_multiplier=0.0125),
    "biases": dict(attention_bias=True),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
# Not output_router_logits: transformers 5.17 fails with it.
PRIVATE = dict(num_local_experts=5, num_experts_per_tok=2, attention_bias=True,
               tie_word_embeddings=True)
GPU = {"all_experts": dict(num_experts_per_tok=9, tie_word_embeddings=True)}
REFUSED = {"attention_multiplier": dict(attention_multiplier=0.0)}


def vary(generator, changes):
    changes["output_router_logits"] = False

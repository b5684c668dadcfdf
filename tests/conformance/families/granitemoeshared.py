from sizes import SMALL, WIDE_HEADS, YARN
from transformers import GraniteMoeSharedConfig as Config  # noqa: F401

BASE = dict(SMALL, intermediate_size=20, num_local_experts=7, num_experts_per_tok=3,
            shared_intermediate_size=15, embedding_multiplier=3.0, attention_multiplier=0.25,
            residual_multiplier=0.4, logits_scaling=2.0)
CASES = {
    "no_shared_expert": dict(shared_intermediate_size=0),
    "one_expert_a_token": dict(num_experts_per_tok=1, attention_bias=True),
    "wide_heads": dict(WIDE_HEADS, attention_multiplier=0.0125, rope_parameters=YARN),
}
# Not output_router_logits: transformers 5.17 fails with it.
PRIVATE = dict(num_local_experts=5, num_experts_per_tok=2, attention_bias=True, tie_word_embeddings=True)
GPU = {"all_experts": dict(num_experts_per_tok=7, shared_intermediate_size=264, tie_word_embeddings=True)}
REFUSED = {"shared_intermediate_size": dict(shared_intermediate_size=-1)}


def vary(generator, changes):
    changes.update(output_router_logits=False, shared_intermediate_size=generator.choice([0, 5, 40]))

from sizes import LINEAR, SMALL, WIDE_HEADS
from transformers import GraniteMoeSWAConfig as Config  # noqa: F401

# The first layer sees all tokens. Not output_router_logits: transformers 5.17 fails with it.
BASE = dict(SMALL, num_hidden_layers=4, sliding_window=9, intermediate_size=20, num_local_experts=7,
            num_experts_per_tok=3, embedding_multiplier=3.0, attention_multiplier=0.25, residual_multiplier=0.4,
            logits_scaling=2.0)
CASES = {
    "shared_expert": dict(shared_intermediate_size=15),
    "one_expert_a_token": dict(num_experts_per_tok=1, attention_bias=True),
    "two_bases": dict(layer_rope_theta=[50000.0, 300.0, 0.0, 300.0]),
    "no_windows": dict(layer_types=["full_attention"] * 4),
    "wide_heads": dict(WIDE_HEADS, attention_multiplier=0.0125),
    "linear_rotary": dict(rope_parameters=LINEAR),
}
PRIVATE = dict(num_local_experts=5, num_experts_per_tok=2, attention_bias=True, shared_intermediate_size=15,
               sliding_window=5, layer_rope_theta=[0.0, 300.0, 300.0, 9000.0], tie_word_embeddings=True)
GPU = {"all_experts": dict(num_experts_per_tok=7, shared_intermediate_size=264, tie_word_embeddings=True)}
REFUSED = {
    "shared_intermediate_size": dict(shared_intermediate_size=-1),
    "output_router_logits": dict(output_router_logits=True),
    "layer_rope_theta": dict(layer_rope_theta=[1.0, 2.0]),
}


def vary(generator, changes):
    changes.update(output_router_logits=False, shared_intermediate_size=generator.choice([0, 5, 40]))
    changes["layer_rope_theta"] = generator.choice([
        None, [generator.choice([0.0, 100.0, 5e5]) for _ in range(changes["num_hidden_layers"])]])

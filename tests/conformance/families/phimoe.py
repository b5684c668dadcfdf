import random_configs
from sizes import LONGROPE, SMALL, WIDE_HEADS
from transformers import PhimoeConfig as Config  # noqa: F401
from transformers.models.phimoe import modeling_phimoe

# More experts compete than with the default of 0.01, by which most weights are 1.
BASE = dict(SMALL, num_local_experts=5, router_jitter_noise=0.4, pad_token_id=None)
# Examples of at most 64 tokens turn by the short factors, the one of 160 by the long ones.
LONG = dict(max_position_embeddings=512,
            rope_parameters=dict(LONGROPE, original_max_position_embeddings=64, short_mscale=1.24, long_mscale=1.24))
CASES = {
    "biases": dict(attention_bias=True, lm_head_bias=True),
    "few_compete": dict(router_jitter_noise=0.01),
    "two_experts": dict(num_local_experts=2),
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5),
    "wide_heads": WIDE_HEADS,
    "window": dict(sliding_window=8),
    "longrope": LONG,
}
PRIVATE = dict(LONG, num_local_experts=7, attention_bias=True, lm_head_bias=True, sliding_window=40,
               tie_word_embeddings=True, output_router_logits=True, router_aux_loss_coef=0.1)
GPU = {
    # No choice that rounding can turn: all experts are chosen, and all compete.
    "all_experts": dict(num_local_experts=2, router_jitter_noise=1e4, attention_bias=True, lm_head_bias=True),
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5, router_jitter_noise=1e4),
}
REFUSED = {
    "input_jitter_noise": dict(input_jitter_noise=0.1),
    "num_experts_per_tok": dict(num_experts_per_tok=3),
    "hidden_act": dict(hidden_act="relu2"),
    "rope_parameters.long_mscale": dict(rope_parameters=dict(LONG["rope_parameters"], long_mscale=1.3)),
}


def with_lengths(forward):
    """transformers 5.17 computes the frequencies without the length, so that no example turns by the long factors."""
    def turn(self, x, position_ids=None):
        make, length = self.rope_init_fn, int(position_ids.max()) + 1
        self.rope_init_fn = lambda *args, **options: make(*args, **{**options, "seq_len": length})
        try:
            return forward(self, x, position_ids)
        finally:
            self.rope_init_fn = make
    return turn


modeling_phimoe.PhimoeRotaryEmbedding.forward = with_lengths(modeling_phimoe.PhimoeRotaryEmbedding.forward)


def vary(generator, changes):
    """Draws the kinds of rotary scaling of Phi-3.5-MoE, and a mixer of two experts or more."""
    changes["num_local_experts"] += 1
    changes["num_experts_per_tok"] = 2
    changes["router_jitter_noise"] = generator.choice([0.01, 0.2, 1.0])
    rope = changes.get("rope_parameters")
    while rope is not None and rope["rope_type"] not in ("default", "longrope"):
        rope = random_configs.draw_rotary(generator, random_configs.head_dim_of(changes))
    if rope is not None and rope["rope_type"] == "longrope":
        rope.update(short_mscale=1.3, long_mscale=1.3)
    if rope is not None:
        changes["rope_parameters"] = rope

from sizes import SMALL, WIDE_HEADS
from transformers import Qwen3MoeConfig as Config  # noqa: F401

BASE = dict(SMALL, num_experts=9, num_experts_per_tok=4, moe_intermediate_size=20, head_dim=10)
CASES = {
    "normalized": dict(norm_topk_prob=True),
    "dense_layers": dict(mlp_only_layers=[1], norm_topk_prob=True),
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5, norm_topk_prob=True),
    "biases": dict(attention_bias=True),
    "wide_heads": dict(WIDE_HEADS, head_dim=80),
    "window": dict(use_sliding_window=True, sliding_window=9),
}
PRIVATE = dict(num_experts=5, num_experts_per_tok=2, decoder_sparse_step=2, attention_bias=True,
               output_router_logits=True, router_aux_loss_coef=0.1, tie_word_embeddings=True)
GPU = {"all_experts": dict(num_experts_per_tok=9, norm_topk_prob=True, tie_word_embeddings=True)}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "num_experts_per_tok": dict(num_experts_per_tok=10),
}

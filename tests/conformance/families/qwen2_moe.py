from sizes import SMALL, WIDE_HEADS
from transformers import Qwen2MoeConfig as Config  # noqa: F401

WINDOW = dict(use_sliding_window=True, sliding_window=9)

BASE = dict(SMALL, num_experts=7, num_experts_per_tok=3, moe_intermediate_size=20,
            shared_expert_intermediate_size=44)
CASES = {
    "normalized": dict(norm_topk_prob=True),
    "dense_layers": dict(decoder_sparse_step=2, norm_topk_prob=True),
    "some_dense_layers": dict(mlp_only_layers=[2]),
    "auxiliary_loss": dict(output_router_logits=True, router_aux_loss_coef=0.5),
    "auxiliary_loss_of_one_layer": dict(output_router_logits=True, router_aux_loss_coef=0.5,
                                        mlp_only_layers=[0, 2]),
    "no_bias": dict(qkv_bias=False),
    "wide_heads": WIDE_HEADS,
    "window": WINDOW,
}
PRIVATE = dict(num_experts=5, num_experts_per_tok=2, mlp_only_layers=[1], tie_word_embeddings=True,
               output_router_logits=True, router_aux_loss_coef=0.1)
GPU = {
    "all_experts": dict(num_experts_per_tok=7, tie_word_embeddings=True),
    "auxiliary_loss_and_dense_layers": dict(output_router_logits=True, router_aux_loss_coef=0.5,
                                            mlp_only_layers=[1], norm_topk_prob=True),
}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
}

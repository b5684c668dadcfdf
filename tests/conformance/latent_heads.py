"""Sizes and options that families with latent attention have in common."""

from random_configs import draw_rotary, is_set
from sizes import DYNAMIC, LINEAR, LLAMA3, SMALL, YARN

# Heads of queries of 16 elements, of values of 14. The rank of keys is even, as DeepSeek-V2 of transformers needs it.
SIZES = {key: size for key, size in SMALL.items() if key != "num_key_value_heads"} | dict(
    q_lora_rank=21, kv_lora_rank=18, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14)
HEADS_OF_V2 = dict(qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128)
LATENT_CASES = {
    "queries_of_whole_rows": dict(q_lora_rank=None),
    "biases": dict(attention_bias=True),
    "values_as_wide_as_keys": dict(v_head_dim=16),
    "narrow_values": dict(v_head_dim=5),
    "wide_heads": dict(HEADS_OF_V2, num_attention_heads=3),
    "large_epsilon": dict(rms_norm_eps=0.1),
    "yarn_rotary": dict(rope_parameters=YARN),
    "yarn_scales_scores": dict(rope_parameters=dict(YARN, mscale=0.707, mscale_all_dim=0.707)),
    "yarn_scales_both": dict(rope_parameters=dict(YARN, mscale=0.5, mscale_all_dim=1.2)),
    "yarn_scales_scores_alone": dict(rope_parameters=dict(YARN, mscale_all_dim=0.8)),
    "linear_rotary": dict(rope_parameters=LINEAR),
    "llama3_rotary": dict(rope_parameters=LLAMA3),
    "dynamic_rotary": dict(rope_parameters=DYNAMIC, max_position_embeddings=32),
}
LATENT_REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "v_head_dim": dict(v_head_dim=17),
    "qk_rope_head_dim": dict(qk_rope_head_dim=7),
    "num_key_value_heads": dict(num_key_value_heads=3),
    "num_experts_per_tok": dict(num_experts_per_tok=8),
}
# On a GPU heads of published models, and small ones.
LATENT_GPU = {
    "published_heads": dict(HEADS_OF_V2, q_lora_rank=None, kv_lora_rank=128),
    "small_heads": dict(qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=24, q_lora_rank=64, kv_lora_rank=136),
}


def vary_heads(generator, changes):
    """Draws the parts of heads and the widths of compressed rows."""
    changes.pop("head_dim", None)
    changes["num_key_value_heads"] = changes["num_attention_heads"]
    turned, unturned = generator.choice([2, 4, 6, 16]), generator.choice([2, 4, 10, 34])
    changes.update(qk_rope_head_dim=turned, qk_nope_head_dim=unturned,
                   v_head_dim=generator.randint(1, turned + unturned),
                   q_lora_rank=generator.choice([None, 7, 20]), kv_lora_rank=generator.choice([6, 10, 34]))
    changes.pop("rope_parameters", None)
    if is_set(generator):
        changes["rope_parameters"] = draw_rotary(generator, turned)

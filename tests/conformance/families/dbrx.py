from transformers import DbrxConfig


def Config(**options):
    """Copies the sub-configs, because transformers' own class changes them."""
    changed = dict(options)
    for name in ("attn_config", "ffn_config"):
        changed[name] = dict(changed[name])
    return DbrxConfig(**changed)


def attention(**options):
    return dict(dict(kv_n_heads=2, clip_qkv=1.5, rope_theta=10000.0), **options)


def experts(**options):
    return dict(dict(ffn_hidden_size=20, moe_num_experts=5, moe_top_k=2), **options)


ROTARY = dict(rope_type="default", rope_theta=500000.0)

BASE = dict(vocab_size=101, d_model=48, n_heads=6, n_layers=3, max_seq_len=512,
            attn_config=attention(), ffn_config=experts())
CASES = {
    "all_experts": dict(ffn_config=experts(moe_top_k=5)),
    "normalized": dict(ffn_config=experts(moe_normalize_expert_weights=1.0)),
    "not_normalized": dict(ffn_config=experts(moe_normalize_expert_weights=None)),
    "clipped_nowhere": dict(attn_config=attention(clip_qkv=1000)),
    "gelu": dict(ffn_config=experts(ffn_act_fn=dict(name="gelu"))),
    "rotary_base": dict(attn_config=attention(rope_theta=500000.0), rope_parameters=ROTARY),
    "wide_heads": dict(d_model=240, n_heads=3, attn_config=attention(kv_n_heads=1)),
}
TIED = False
# attn_config has the base that published weights were trained with; transformers 5 does not look there.
OWN_FALLBACKS = {"rope_parameters", "rope_parameters.rope_theta"}
# Not output_router_logits: transformers 5.17 fails with it.
PRIVATE = dict(d_model=36, n_heads=3, attn_config=attention(kv_n_heads=3, clip_qkv=0.5),
               ffn_config=experts(moe_num_experts=4, moe_top_k=3))
GPU_SIZES = dict(vocab_size=1003, d_model=384, max_seq_len=2048, ffn_config=experts(ffn_hidden_size=136))
GPU = {
    "base": GPU_SIZES,
    "all_experts": dict(GPU_SIZES, ffn_config=experts(ffn_hidden_size=136, moe_top_k=5)),
}
REFUSED = {name: dict(dict(attn_config=attention(), ffn_config=experts()), **changes)
           for name, changes in {
    "attn_config.rope_theta": dict(attn_config=attention(rope_theta=500000.0)),
    "ffn_config.moe_normalize_expert_weights": dict(
        ffn_config=experts(moe_normalize_expert_weights=2.0)),
    "ffn_config.moe_jitter_eps": dict(ffn_config=experts(moe_jitter_eps=0.1)),
    "attn_config.clip_qkv": dict(attn_config=attention(clip_qkv=-1.0)),
}.items()}


def vary(generator, changes):
    """All its keys have names of their own."""
    heads, key_heads = generator.choice([(2, 1), (3, 3), (6, 2)])
    count = generator.choice([1, 3, 6])
    hidden_size = heads * generator.choice([4, 10, 22])
    changes.clear()
    changes.update(
        d_model=hidden_size, n_heads=heads, n_layers=generator.choice([1, 2, 4]),
        attn_config=attention(kv_n_heads=key_heads, clip_qkv=generator.choice([0.5, 4.0, 100.0])),
        ffn_config=experts(ffn_hidden_size=generator.choice([13, 32]), moe_num_experts=count,
                           moe_top_k=generator.randint((count + 1) // 2, count), hidden_size=hidden_size,
                           moe_normalize_expert_weights=generator.choice([None, 1.0])))

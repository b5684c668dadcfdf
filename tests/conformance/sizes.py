"""Sizes and options that the families' files have in common."""

# Odd on purpose: 3 heads a group, an inner size and a vocabulary that are multiples of nothing.
SMALL = dict(
    vocab_size=101,
    hidden_size=48,
    intermediate_size=76,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    max_position_embeddings=512,
)
# On a GPU, of what a family's BASE has: the kernels take heads of multiples of 8.
GPU_SIZES = dict(
    vocab_size=1003,
    vocab_size_per_layer_input=1003,
    hidden_size=384,
    intermediate_size=1000,
    intermediate_size_mlp=1000,
    moe_intermediate_size=136,
    shared_expert_intermediate_size=264,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=64,
    query_pre_attn_scalar=50,
    attention_multiplier=0.1,
    q_lora_rank=72,
    kv_lora_rank=40,
    qk_nope_head_dim=48,
    qk_rope_head_dim=16,
    v_head_dim=40,
    max_position_embeddings=2048,
    sliding_window=70,
    attention_chunk_size=70,
)
WIDE_HEADS = dict(hidden_size=240, num_attention_heads=3, num_key_value_heads=1)  # head_dim 80
# For families with a pad token by default: transformers gives its embedding no gradient. packtrain does
# not know the pad token, which no example has.
NO_PAD = dict(pad_token_id=None)

# rope_parameters, by kind.
LINEAR = dict(rope_type="linear", rope_theta=500000.0, factor=4.0)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=32)
DYNAMIC = dict(rope_type="dynamic", rope_theta=10000.0, factor=3.0)  # beyond max_position_embeddings
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32)
# For the 4 pairs of SMALL's heads: examples of up to 10 tokens are short.
LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.1, 1.3, 1.7],
                long_factor=[1.0, 2.0, 5.0, 16.0], original_max_position_embeddings=10)


def vary_groups(generator, changes, least=2, experts="n_routed_experts", shared="n_shared_experts"):
    """Draws groups of experts and the shared ones. The weight of one expert is 1, whose gradient in transformers is
    nothing but rounding."""
    groups = generator.choice([1, 2, 3])
    chosen = generator.randint(1, groups)
    per_group = generator.randint(least, 4)
    changes[experts] = groups * per_group
    changes["num_experts_per_tok"] = generator.randint(min(2, chosen * per_group), chosen * per_group)
    changes.update({"n_group": groups, "topk_group": chosen, shared: generator.randint(1, 3)})

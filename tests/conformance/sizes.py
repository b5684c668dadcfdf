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
WIDE_HEADS = dict(hidden_size=240, num_attention_heads=3, num_key_value_heads=1)  # head_dim 80

# rope_parameters, by kind.
LINEAR = dict(rope_type="linear", rope_theta=500000.0, factor=4.0)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=32)

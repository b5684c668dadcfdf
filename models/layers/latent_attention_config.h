// Settings of multi-head latent attention.
#pragma once

#include <cstdint>

namespace packtrain {

// Queries, keys and values that are projections of compressed rows (multi-head latent attention,
// DeepSeek-AI, arXiv 2405.04434, 2.1; ops/latent_heads). DecoderConfig::head_dim is that of queries
// and keys, rotary_dim the part of it that keys share.
struct LatentAttentionConfig {
  std::int64_t key_value_rank = 0;  // elements of a compressed row; 0: attention is not latent
  std::int64_t query_rank = 0;      // the same for queries; 0: they are projections of whole rows
  std::int64_t value_head_dim = 0;  // at most head_dim
  double norm_epsilon = 1e-6;       // of the compressed rows
  double mscale_all_dim = 0;        // of YaRN, which attention_scale has; for config.json

  bool operator==(const LatentAttentionConfig&) const = default;
};

}  // namespace packtrain

// What attention computes in one layer of a decoder.
#pragma once

#include <cstdint>

#include "models/decoder_config.h"
#include "models/ops/attention/attention.h"

namespace packtrain {

inline AttentionShape layer_attention(const DecoderConfig& config, std::int64_t layer) {
  return {.num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .scale = config.attention_scale,
          .window = config.layer(layer).window};
}

}  // namespace packtrain

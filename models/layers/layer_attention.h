// The attention of one layer of a decoder.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "framework/data/attention_pattern.h"
#include "models/layers/decoder_config.h"
#include "models/ops/attention/attention.h"
#include "models/ops/latent_heads/latent_heads.h"

namespace packtrain {

// The factor of the layer's scores; 0: 1 / sqrt(head_dim).
inline double attention_scale_of(const DecoderConfig& config, std::int64_t layer) {
  const double factor = config.multipliers.scores();
  if (!config.attention_scale_by_layer && factor == 1) return config.attention_scale;
  const double head_dim = static_cast<double>(config.head_dim_of(layer));
  const double scale =
      config.attention_scale == 0 ? 1.0 / std::sqrt(head_dim) : config.attention_scale;
  return factor * scale / (config.attention_scale_by_layer ? static_cast<double>(layer + 1) : 1);
}

inline QkNormKind qk_norm_of(const DecoderConfig& config, std::int64_t layer) {
  const bool is_left_out =
      config.qk_norm == QkNormKind::kHeadUnit && !config.rotary_of(layer).rotates;
  return is_left_out ? QkNormKind::kNone : config.qk_norm;
}

inline QueryTemperature query_temperature_of(const DecoderConfig& config, std::int64_t layer) {
  const QueryTemperature& temperature = config.query_temperature;
  const bool is_left_out = temperature.only_without_rotary && config.rotary_of(layer).rotates;
  return is_left_out ? QueryTemperature{} : temperature;
}

inline AttentionShape layer_attention(const DecoderConfig& config, std::int64_t layer) {
  return {.num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads_of(layer),
          .head_dim = config.head_dim_of(layer),
          .scale = attention_scale_of(config, layer),
          .pattern = config.layer(layer).attention,
          .soft_cap = config.attention_soft_cap};
}

inline LatentHeadShape latent_head_shape(const DecoderConfig& config) {
  return {.num_heads = config.num_heads,
          .rotary_dim = config.resolved_rotary_dim(),
          .unturned_dim = config.head_dim - config.resolved_rotary_dim(),
          .value_dim = config.latent.value_head_dim};
}

// The pattern of each layer that has attention.
inline std::vector<AttentionPattern> attention_patterns(const DecoderConfig& config) {
  std::vector<AttentionPattern> patterns;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer(layer).has_attention()) continue;
    patterns.push_back(config.layer(layer).attention);
  }
  return patterns;
}

// Returns each distinct attention shape once.
inline std::vector<AttentionShape> distinct_attentions(const DecoderConfig& config) {
  std::vector<AttentionShape> shapes;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer(layer).has_attention()) continue;
    const AttentionShape shape = layer_attention(config, layer);
    if (std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace packtrain

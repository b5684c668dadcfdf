// Rotary positions in config.json, in the old layout (rope_theta, rope_scaling) and in that of
// transformers 5 (rope_parameters). Kinds: default, linear, dynamic, llama3, yarn, longrope (also
// under its first name "su"). ops/rotary/rotary_frequencies.h has the formulas. All other kinds are
// refused.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "models/layers/decoder_config.h"

namespace packtrain {

class ConfigReader;

// Values of a family for keys that its config does not set.
struct RotaryDefaults {
  double base = 10000.0;
  // Fraction of a head that rotates. Without a value the family rotates whole heads, and a config
  // with a smaller fraction is refused.
  std::optional<double> partial_factor = std::nullopt;
  // For a family that has original_max_position_embeddings outside of rope_scaling; 0:
  // max_positions.
  std::int64_t original_max_positions = 0;
  // Reads DecoderConfig::query_temperature from llama_4_scaling_beta, which must be set then.
  bool query_temperature = false;
  // The factor of cosine and sine is short_mscale and long_mscale, which must be set and equal,
  // where rotary positions are scaled.
  bool length_factors = false;
  // Positions of pictures have parts, which share the pairs of a head. They are equal for text.
  bool position_parts = false;
  // The type "dynamic" with `alpha` has a fixed base, alpha^(D / (D - 2)) times as large for heads
  // of D elements.
  bool dynamic_alpha = false;
  // YaRN's mscale_all_dim changes the factor of scores: LatentAttentionConfig::mscale_all_dim.
  bool scores_mscale = false;
};

// Reads either layout into config.rotary and config.rotary_dim. max_positions and head_dim must be
// set.
void read_rotary(ConfigReader& reader, DecoderConfig& config, const RotaryDefaults& defaults = {});
// For families with frequencies by kind of layer (rope_parameters.full_attention and
// .sliding_attention). Reads config.rotary and, for sliding layers, config.local_rotary. In the old
// layout rope_scaling applies only to full attention, and `local_key`, if any, is the base of
// sliding layers.
void read_layered_rotary(ConfigReader& reader, DecoderConfig& config, double base,
                         double local_base, const char* local_key = nullptr);

// The value of rope_parameters; rope_scaling of the old layout takes the same keys.
nlohmann::json write_rotary(const DecoderConfig& config);
nlohmann::json write_layered_rotary(const DecoderConfig& config);
// rope_scaling of the old layout; null without scaling.
nlohmann::json write_rope_scaling(const DecoderConfig& config);
// Fraction of a head that rotates. head_dim times this, rounded down, is
// config.resolved_rotary_dim().
double partial_rotary_factor(const DecoderConfig& config);

}  // namespace packtrain

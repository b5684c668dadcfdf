// Rotary positions in config.json, old layout (rope_theta, rope_scaling) and that of transformers 5
// (rope_parameters). Kinds: default, linear, dynamic, llama3, yarn, longrope (and "su", its first
// name); formulas in ops/rotary/rotary_frequencies.h. All others are refused.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "models/decoder_config.h"

namespace packtrain {

class ConfigReader;

// What a family has where its config says nothing.
struct RotaryDefaults {
  double base = 10000.0;
  // Part of a head that turns; without a value the family turns whole heads, and a config that asks
  // for less is refused.
  std::optional<double> partial_factor = std::nullopt;
  // Of a family that keeps original_max_position_embeddings beside rope_scaling; 0: max_positions.
  std::int64_t original_max_positions = 0;
};

// Reads either layout into config.rotary and config.rotary_dim; needs max_positions and head_dim
// set.
void read_rotary(ConfigReader& reader, DecoderConfig& config, const RotaryDefaults& defaults = {});
// Of families with frequencies by kind of layer (rope_parameters.full_attention and
// .sliding_attention): into config.rotary and, for sliding layers, config.local_rotary. In the old
// layout rope_scaling is of full attention alone and `local_key`, if any, is the others' base.
void read_layered_rotary(ConfigReader& reader, DecoderConfig& config, double base,
                         double local_base, const char* local_key = nullptr);

// The value of rope_parameters; rope_scaling of the old layout takes the same keys.
nlohmann::json write_rotary(const DecoderConfig& config);
nlohmann::json write_layered_rotary(const DecoderConfig& config);
// rope_scaling of the old layout: null without a scaling.
nlohmann::json write_rope_scaling(const DecoderConfig& config);
// The part of a head that turns: head_dim times this, rounded down, is
// config.resolved_rotary_dim().
double partial_rotary_factor(const DecoderConfig& config);

}  // namespace packtrain

// Keys of config.json and names of weights that families with Mamba-2's state space model share.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/families/config_reader.h"
#include "models/families/weight_map.h"

namespace packtrain {

// The fallbacks of a family.
struct Mamba2Defaults {
  std::int64_t num_heads = 128;
  std::int64_t num_groups = 1;
  std::int64_t state_dim = 256;
  // The width of all heads, and the key that has it. 0: it is mamba_expand times hidden_size.
  std::int64_t width = 0;
  const char* width_key = "mamba_expand times hidden_size";
};

// Reads the keys mamba_*, and time_step_limit, of `json`. hidden_size, the activation and the norm
// must be read. Refuses sizes that do not fit, and another activation than silu.
void read_mamba2(ConfigReader& reader, DecoderConfig& config, const nlohmann::json& json,
                 const Mamba2Defaults& defaults = {});
// Throws Error(kConfig) unless the number of groups, of `key`, divides that of heads.
void check_mamba2_groups(ConfigReader& reader, const Mamba2Config& mamba, const char* key);
void write_mamba2(const DecoderConfig& config, nlohmann::json& json);

// Reads which layers have the state space model from layer_types or its older name
// layers_block_type. Without either all have it. num_layers must be set.
void read_mamba2_layers(ConfigReader& reader, DecoderConfig& config);
void write_mamba2_layers(const DecoderConfig& config, nlohmann::json& json);

// The tensors of a layer's mixer, whose names begin with `theirs` (model.layers.N.mamba.).
void add_mamba2(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                const std::string& theirs);

// Llama's layout with such mixers, by the names of Bamba.
std::vector<WeightPiece> bamba_layout_weights(const DecoderConfig& config);

}  // namespace packtrain

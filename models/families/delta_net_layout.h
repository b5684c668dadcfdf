// Keys of config.json and names of weights that families with a gated delta rule share.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/families/config_reader.h"
#include "models/families/weight_map.h"

namespace packtrain {

// Values of a family for keys that its config does not set.
struct DeltaNetDefaults {
  std::int64_t num_key_heads = 16;
  std::int64_t num_value_heads = 32;
  std::int64_t key_head_dim = 128;
  std::int64_t value_head_dim = 128;
};

// Reads the linear_* sizes into config.delta_net. The norm and the activation must be read. Refuses
// a number of value heads that is no multiple of the key heads, and an activation that the
// convolution does not compute.
void read_delta_net(ConfigReader& reader, DecoderConfig& config, const DeltaNetDefaults& defaults);
// Reads `layer_types`: "linear_attention" has a gated delta rule, "full_attention" attention. If it
// is not set, `is_linear` is the fallback of transformers. num_layers must be set.
void read_mixer_types(ConfigReader& reader, DecoderConfig& config,
                      const std::function<bool(std::int64_t layer)>& is_linear);
// The fallback of Qwen's families: one layer of `full_attention_interval` has attention.
void read_mixer_interval(ConfigReader& reader, DecoderConfig& config);
// Inverse of both.
void write_delta_net(const DecoderConfig& config, nlohmann::json& json);

// Names of the projections inside linear_attn.
struct DeltaNetNames {
  std::vector<std::string> qkvz;  // a tensor for each: queries, keys and values, and the gate
  std::string b;
  std::string a;
  std::string norm;
  std::string output;
};
// Each tensor of a layer's mixer has whole parts of our rows, in their order. Tensors are those of
// model.layers.N.linear_attn.
void add_delta_net(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                   const DeltaNetNames& names);
// The same where in_proj_qkvz and in_proj_ba have all parts of one key head after another.
void add_delta_net_by_heads(WeightMap& map, const DecoderConfig& config, std::int64_t layer);

}  // namespace packtrain

// Keys of config.json and names of weights that families with experts share.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/families/config_reader.h"
#include "models/families/weight_map.h"

namespace packtrain {

// Sets experts in each layer for which `has_experts` is true. num_layers must be set.
void set_expert_layers(DecoderConfig& config,
                       const std::function<bool(std::int64_t layer)>& has_experts);

// Reads the number of experts a token from `num_experts_per_tok` (or `key`). Refuses 0 and more
// than there are.
void read_experts_per_token(ConfigReader& reader, DecoderConfig& config, std::int64_t fallback,
                            const char* key = "num_experts_per_tok");

// Reads `output_router_logits`, which makes transformers add the load-balancing loss, and
// `router_aux_loss_coef`.
void read_auxiliary_loss(ConfigReader& reader, DecoderConfig& config, double fallback = 0.001);
void write_auxiliary_loss(const DecoderConfig& config, nlohmann::json& json);

// Names inside a layer, without "model.layers.N.". Separate experts have experts.E.gate.weight and
// so on. Stacked experts have one `gate_up` [E, 2 I, H] and one `down` [E, H, I]. An activation
// that is not gated has no `gate`, and `gate_up` [E, I, H].
struct ExpertNames {
  std::string router;
  std::string experts;  // separate
  std::string gate;
  std::string up;
  std::string down;
};
void add_experts_apart(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                       const ExpertNames& names);

struct StackedExpertNames {
  std::string router;
  std::string gate_up;
  std::string down;
};
void add_experts_stacked(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                         const StackedExpertNames& names);

// The shared expert NAME.{gate_proj,up_proj,down_proj} of a layer with experts. Without a gate it
// has no gate_proj.
void add_shared_expert(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                       const std::string& name);

}  // namespace packtrain

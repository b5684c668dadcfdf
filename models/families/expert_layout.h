// What families with a mixture of experts share in config.json and in names of weights.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/families/config_reader.h"
#include "models/families/weight_map.h"

namespace packtrain {

// Experts in each layer of which `has_experts` says so. Needs num_layers set.
void set_expert_layers(DecoderConfig& config,
                       const std::function<bool(std::int64_t layer)>& has_experts);

// Reads `num_experts_per_tok` (or `key`) experts a token; refused: none, or more than there are.
void read_experts_per_token(ConfigReader& reader, DecoderConfig& config, std::int64_t fallback,
                            const char* key = "num_experts_per_tok");

// Reads `output_router_logits`, which in transformers adds the load-balancing loss to a model's,
// and `router_aux_loss_coef`.
void read_auxiliary_loss(ConfigReader& reader, DecoderConfig& config);
void write_auxiliary_loss(const DecoderConfig& config, nlohmann::json& json);

// Names inside a layer, "model.layers.N." left out. Experts apart: experts.E.gate.weight and so on;
// stacked: `gate_up` [E, 2 I, H] and `down` [E, H, I] of all.
struct ExpertNames {
  std::string router;
  std::string experts;  // apart
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

}  // namespace packtrain

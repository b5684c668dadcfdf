// Experts of DeepSeek-V3 and of families with its router (models/ops/experts/sigmoid_router.h):
// keys of config.json and names of weights. Shared experts are one MLP.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/expert_layout.h"
#include "models/families/weight_map.h"

namespace packtrain {

// Names that differ between families.
struct SigmoidExpertsNames {
  const char* num_experts = "n_routed_experts";  // keys of config.json
  const char* num_shared = "n_shared_experts";
  const char* choice_bias = "gate.e_score_correction_bias";  // a tensor of the MLP
};

// Values of a family for keys that its config does not set.
struct SigmoidExpertsDefaults {
  std::int64_t num_experts = 128;
  std::int64_t intermediate_size = 1408;
  std::int64_t experts_per_token = 8;
  std::int64_t num_groups = 1;
  std::int64_t groups_per_token = 1;
  double weight_multiplier = 1.0;
  bool normalize = true;
  SigmoidExpertsNames names = {};
};

// Reads n_group and topk_group. Groups have `least` experts or more.
void read_expert_groups(ConfigReader& reader, ExpertsConfig& experts,
                        const SigmoidExpertsDefaults& defaults, std::int64_t least);
// Reads all keys of the experts, but not which layers have them.
void read_sigmoid_experts(ConfigReader& reader, DecoderConfig& config,
                          const SigmoidExpertsDefaults& defaults);
// Reads first_k_dense_replace, the number of first layers without experts.
void read_first_dense_layers(ConfigReader& reader, DecoderConfig& config, std::int64_t fallback);
// Reads mlp_layer_types, "dense" or "sparse" for each layer. Where it is not set, the first
// `num_dense` layers are dense.
void read_mlp_layer_types(ConfigReader& reader, DecoderConfig& config, std::int64_t num_dense);
// Inverse of read_mlp_layer_types.
void write_mlp_layer_types(const DecoderConfig& config, nlohmann::json& json);
std::int64_t num_first_dense_layers(const DecoderConfig& config);
// Inverse of read_sigmoid_experts.
void write_sigmoid_experts(const DecoderConfig& config, nlohmann::json& json,
                           const SigmoidExpertsNames& names = {});

// The weights of a layer with experts that are separate tensors, as published, or stacked.
void add_sigmoid_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                         const SigmoidExpertsNames& names = {});
void add_stacked_sigmoid_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer);

// The weights of a model with Llama's layout and such experts, in either layout of experts.
std::vector<WeightPiece> sigmoid_expert_weights(const DecoderConfig& config);
std::vector<std::vector<WeightPiece>> stacked_sigmoid_expert_weights(const DecoderConfig& config);

}  // namespace packtrain

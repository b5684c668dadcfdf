// Experts of Qwen2-MoE and Qwen3-MoE.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/families/config_reader.h"
#include "models/families/expert_layout.h"

namespace packtrain {

// Reads the layers that have experts (`decoder_sparse_step`, `mlp_only_layers`), whether the
// weights of the chosen experts sum to 1 (or not: `normalized`), and the auxiliary loss.
void read_qwen_experts(ConfigReader& reader, DecoderConfig& config, bool normalized = false);
// Inverse of read_qwen_experts; also writes `num_experts_per_tok`.
void write_qwen_experts(const DecoderConfig& config, nlohmann::json& json);

// Separate tensors for each expert, as published, or tensors that stack all experts.
void add_qwen_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer);
void add_stacked_qwen_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer);
// The shared expert of a layer with experts, and its gate.
void add_gated_qwen_expert(WeightMap& map, const DecoderConfig& config, std::int64_t layer);

// The weights of a model with Llama's layout and such experts, in either layout of experts.
std::vector<WeightPiece> qwen_expert_weights(const DecoderConfig& config);
std::vector<std::vector<WeightPiece>> stacked_qwen_expert_weights(const DecoderConfig& config);

}  // namespace packtrain

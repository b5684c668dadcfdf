// What the experts of Qwen2-MoE and Qwen3-MoE have in common.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/expert_layout.h"

namespace packtrain {

// Which layers have experts (`decoder_sparse_step`, `mlp_only_layers`), whether the weights of the
// chosen sum to 1, and the auxiliary loss.
void read_qwen_experts(ConfigReader& reader, DecoderConfig& config);
// What read_qwen_experts reads, and `num_experts_per_tok`.
void write_qwen_experts(const DecoderConfig& config, nlohmann::json& json);

// Each expert's tensors apart, as published, or those of all stacked.
void add_qwen_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer);
void add_stacked_qwen_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer);

}  // namespace packtrain

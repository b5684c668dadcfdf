// Qwen3-Next: layers with a gated delta rule, and one of four with attention. Differences from
// Qwen3-MoE: gates of attention's output, partial rotary positions, norms scaled by 1 + weight, a
// gated shared expert. The rows of one key head follow each other in projections of the delta rule.
// Layers that predict further tokens (mtp.*) are left out, as by transformers.
#pragma once

#include "models/families/config_reader.h"
#include "models/families/family.h"

namespace packtrain {

Family qwen3_next_family();

// What Qwen3-Next and Qwen3.5 have in common: sizes, attention, norms, the delta rule and its
// layers. Without dense layers there is no intermediate_size.
void read_qwen3_next_layout(ConfigReader& reader, DecoderConfig& config,
                            bool has_dense_layers = true);
// The sizes of experts that a config does not set.
struct GatedExpertsDefaults {
  std::int64_t num_experts;
  std::int64_t experts_per_token;
};
// Each layer with experts has a gated shared one.
void read_gated_experts(ConfigReader& reader, DecoderConfig& config,
                        const GatedExpertsDefaults& defaults);
// Inverses of both. The number of experts of a token is written too.
void write_gated_experts(const DecoderConfig& config, nlohmann::json& json);
void write_qwen3_next_layout(const DecoderConfig& config, nlohmann::json& json);

}  // namespace packtrain

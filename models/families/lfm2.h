// LFM2 (Liquid AI): Llama's decoder with norms of queries and keys. Most layers have a gated short
// convolution instead of attention. The published width of the MLP is before an adjustment that the
// config describes. Tensors have names of their own.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/families/config_reader.h"
#include "models/families/family.h"
#include "models/families/llama_layout.h"
#include "models/families/weight_map.h"

namespace packtrain {

// What LFM2 shares with its variant with experts: all keys but those of the MLP. The layers' mixers
// are those of layer_types, which must be set.
void read_lfm2_layout(ConfigReader& reader, DecoderConfig& config);
nlohmann::json write_lfm2_layout(const DecoderConfig& config);
// `add_experts` maps the tensors of the layers with experts.
std::vector<WeightPiece> lfm2_layout_weights(const DecoderConfig& config,
                                             const AddPart& add_experts);

Family lfm2_family();

}  // namespace packtrain

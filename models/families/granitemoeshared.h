// GraniteMoE with a shared expert (model_type "granitemoeshared"): an additional MLP for all tokens
// where shared_intermediate_size is not 0.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/families/config_reader.h"
#include "models/families/family.h"
#include "models/families/granitemoe.h"

namespace packtrain {

Family granitemoeshared_family();

// Shared with models that have windows. `add_experts` maps the tensors of a layer's experts.
void read_granitemoeshared_layout(ConfigReader& reader, DecoderConfig& config);
nlohmann::json write_granitemoeshared_layout(const DecoderConfig& config);
std::vector<WeightPiece> tensors_of_granitemoeshared(const DecoderConfig& config,
                                                     decltype(add_granite_experts) add_experts);

}  // namespace packtrain

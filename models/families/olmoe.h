// OLMoE (model_type "olmoe"; Muennighoff et al., arXiv 2409.02060): Llama's layout with experts in
// each layer. One norm is over all query heads, and one over all key heads.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/family.h"

namespace packtrain {

Family olmoe_family();

// Shared with FlexOlmo. `defaults` has the numbers of experts, of all and of a token, where the
// config does not set them.
void read_olmo_experts(ConfigReader& reader, DecoderConfig& config, const ExpertsConfig& defaults);
nlohmann::json write_olmoe_layout(const DecoderConfig& config);

}  // namespace packtrain

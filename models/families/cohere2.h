// Command R7B and A (model_type "cohere2"; Cohere, arXiv 2504.00698): attention and MLP read one
// layer norm without bias, in parallel. Layers with a window rotate heads in pairs of neighbours;
// the others see all tokens and have no rotary positions. Keys of Cohere's own code must say the
// same.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/family.h"

namespace packtrain {

Family cohere2_family();

// Shared by both generations. `base` is of rotary positions where the config does not set it.
void read_cohere_layout(ConfigReader& reader, DecoderConfig& config, double base);
nlohmann::json write_cohere_layout(const DecoderConfig& config);

}  // namespace packtrain

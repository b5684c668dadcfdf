// Hunyuan's dense models (0.5B to 7B). They have the layout of Llama with a norm of each query and
// key head after rotary positions. The published scaling is of the type "dynamic" with `alpha`.
// With heads of D elements the base of rotary positions is alpha^(D / (D - 2)) times as large. For
// examples beyond max_position_embeddings transformers uses other frequencies, which are not
// computed here.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/family.h"

namespace packtrain {

Family hunyuan_v1_dense_family();

// Shared by models with and without experts.
void read_hunyuan_layout(ConfigReader& reader, DecoderConfig& config);
nlohmann::json write_hunyuan_layout(const DecoderConfig& config);

}  // namespace packtrain

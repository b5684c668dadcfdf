// OLMo 2 (model_type "olmo2"; OLMo Team, arXiv 2501.00656): Llama's layout with norms behind each
// branch instead of before it, and RMS norms over all queries and over all keys of a token.
#pragma once

#include "models/families/config_reader.h"
#include "models/families/family.h"
#include "models/families/llama_layout.h"

namespace packtrain {

Family olmo2_family();

// What generations 2 and 3 have.
void read_olmo2_layout(ConfigReader& reader, DecoderConfig& config, LlamaLayout layout);

}  // namespace packtrain

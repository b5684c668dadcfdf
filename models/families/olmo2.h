// OLMo 2 (model_type "olmo2"; OLMo Team, arXiv 2501.00656). It has Llama's layout with norms after
// each branch instead of before it. RMS norms cover all queries and all keys of a token.
#pragma once

#include "models/families/config_reader.h"
#include "models/families/family.h"
#include "models/families/llama_layout.h"

namespace packtrain {

Family olmo2_family();

// Shared by generations 2 and 3.
void read_olmo2_layout(ConfigReader& reader, DecoderConfig& config, const LlamaLayout& layout);

}  // namespace packtrain

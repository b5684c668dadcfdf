// SmolLM3 (model_type "smollm3"): Llama's layout without rotary positions in every fourth layer
// (Yang et al., arXiv 2501.18795). In no_rope_layers these layers are 0. The fallback of
// num_key_value_heads in transformers is 4 for any number of heads, so that the key must be set.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family smollm3_family();

}  // namespace packtrain

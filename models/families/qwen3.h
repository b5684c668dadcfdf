// Qwen3 (model_type "qwen3"; Yang et al., arXiv 2505.09388): Llama's layout with norms of each
// query and key head, and the windows of Qwen2. Heads have 128 elements when head_dim is not set.
// num_key_value_heads must be set, because transformers' fallback is 32 for any number of heads.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family qwen3_family();

}  // namespace packtrain

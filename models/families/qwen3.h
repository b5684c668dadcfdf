// Qwen3 (model_type "qwen3"; Yang et al., arXiv 2505.09388): Llama's layout with norms of each
// query and key head, heads of 128 elements where head_dim is not set, and the windows of Qwen2.
// num_key_value_heads must be set: transformers' fallback is 32, whatever the heads.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family qwen3_family();

}  // namespace packtrain

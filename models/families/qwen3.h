// Qwen3 (model_type "qwen3"; Yang et al., arXiv 2505.09388): Llama's layout with norms of each
// query and key head, and the windows of Qwen2. num_key_value_heads and head_dim must be set:
// transformers' fallbacks are 32 and 128, whatever the sizes.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family qwen3_family();

}  // namespace packtrain

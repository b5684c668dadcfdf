// Seed-OSS (model_type "seed_oss"): Llama's layout with biases of queries, keys and values. Heads
// have 128 elements when head_dim is not set. Keys must be set whose fallbacks in transformers suit
// few models. That of num_key_value_heads is 8 for any number of heads, that of dropouts is 0.1.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family seed_oss_family();

}  // namespace packtrain

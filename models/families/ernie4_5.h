// ERNIE 4.5 without experts (model_type "ernie4_5"; Baidu, 2025): Llama with rotary positions that
// turn neighbours, and one key for all biases. The fallback of num_key_value_heads in transformers
// is 2 for any number of heads, so that the key must be set.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family ernie4_5_family();

}  // namespace packtrain

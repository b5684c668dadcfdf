// Ministral 3 and Devstral 2 (model_type "ministral3"): Mistral's layout with queries that are
// scaled by their position (QueryTemperature). Heads have 128 elements when head_dim is not set.
// num_key_value_heads must be set, because transformers' fallback is 8 for any number of heads.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family ministral3_family();

}  // namespace packtrain

// Qwen3.5's text models, dense (qwen3_5_text) and with experts (qwen3_5_moe_text). Projections of
// the delta rule have rows in our order, in tensors of their own, other than in Qwen3-Next. All
// layers have experts or none has. Positions of pictures have three parts, which are equal for
// text.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family qwen3_5_family();
Family qwen3_5_moe_family();

}  // namespace packtrain

// ERNIE 4.5 with experts (model_type "ernie4_5_moe"; Baidu, 2025): the attention of ernie4_5.
// Experts are chosen by softmax scores with a bias, which has no gradient. The balancing loss
// counts other choices in transformers, those without the bias, and is refused.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family ernie4_5_moe_family();

}  // namespace packtrain

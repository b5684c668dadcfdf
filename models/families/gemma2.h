// Gemma 2 (model_type "gemma2"; Gemma Team, arXiv 2408.00118). It is Gemma with norms before and
// after each branch, soft caps of attention scores and logits, and windows in every second layer.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family gemma2_family();

}  // namespace packtrain

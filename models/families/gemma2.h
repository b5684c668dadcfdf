// Gemma 2 (model_type "gemma2"; Gemma Team, arXiv 2408.00118): Gemma with norms on both sides of a
// branch, soft-caps on the scores of attention and on the logits, and windows in every other layer.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family gemma2_family();

}  // namespace packtrain

// OLMoE (model_type "olmoe"; Muennighoff et al., arXiv 2409.02060): Llama's layout with experts in
// each layer. One norm is over all query heads, and one over all key heads.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family olmoe_family();

}  // namespace packtrain

// Mistral (model_type "mistral"; Jiang et al., arXiv 2310.06825): Llama's layout without biases.
// Its sliding window is not computed: a config may have one that no position reaches (v0.1 cut to
// its window's 4096 positions), or none (from v0.2 on); others are refused.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family mistral_family();

}  // namespace packtrain

// Phi-3, Phi-3.5 and Phi-4 (model_type "phi3"; Abdin et al., arXiv 2404.14219). Llama's layout with
// queries, keys and values in one tensor, and gate and up in another. Long contexts use longrope;
// windows slide.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family phi3_family();

}  // namespace packtrain

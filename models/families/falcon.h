// Falcon (model_type "falcon"; Almazrouei et al., arXiv 2311.16867): 7B, with one key and value
// head and one norm for attention and MLP beside each other, and the new decoder (11B, 40B, 180B),
// with groups of heads and two norms; also one branch behind the other. ALiBi (Falcon-RW) is
// refused.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family falcon_family();

}  // namespace packtrain

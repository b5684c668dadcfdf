// Mixtral (Jiang et al., arXiv 2401.04088): Mistral with experts in every layer. The weights of the
// chosen experts sum to 1.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family mixtral_family();

}  // namespace packtrain

// GPT-NeoX and Pythia (model_type "gpt_neox"; Black et al., arXiv 2204.06745). Attention and MLP
// run in parallel, each with its own layer norm, or one after the other. A quarter of a head
// rotates.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family gpt_neox_family();

}  // namespace packtrain

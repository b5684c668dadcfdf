// GPT-2 (model_type "gpt2"; Radford et al., 2019): layer norms, learned positions, biases and a
// plain MLP. The files have the matrices of projections as [inputs, outputs].
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family gpt2_family();

}  // namespace packtrain

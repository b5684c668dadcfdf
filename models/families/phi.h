// Phi-1, Phi-1.5 and Phi-2 (model_type "phi"; Li et al., arXiv 2309.05463): parallel attention and
// MLP after one layer norm, and biases everywhere. Rotary positions use a part of each head; the
// activation is a tanh GELU without gate. Norms of queries and keys (qk_layernorm) are refused,
// because those of this family have biases.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family phi_family();

}  // namespace packtrain

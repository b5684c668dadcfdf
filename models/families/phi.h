// Phi-1, Phi-1.5 and Phi-2 (model_type "phi"; Li et al., arXiv 2309.05463): attention and MLP
// beside each other behind one layer norm, biases everywhere, rotary positions on a part of each
// head, a tanh GELU without a gate. Norms of queries and keys (qk_layernorm) are refused: those of
// this family have biases.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family phi_family();

}  // namespace packtrain

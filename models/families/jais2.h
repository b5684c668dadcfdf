// Jais 2 (model_type "jais2"; Inception and MBZUAI, 2025): Llama with layer norms and biases, and
// MLPs of squared ReLU without a gate.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family jais2_family();

}  // namespace packtrain

// StarCoder2 (model_type "starcoder2"; arXiv 2402.19173): Llama's layout with layer norms, a tanh
// GELU without a gate, biases, tied embeddings and a sliding window.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family starcoder2_family();

}  // namespace packtrain

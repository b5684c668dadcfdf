// StableLM 3B, 1.6B, Zephyr and 12B (model_type "stablelm"; Bellagente et al., arXiv 2402.17834).
// Llama's layout with layer norms, and rotary positions on a part of each head. Biases of queries,
// keys and values, norms of each of their heads, and parallel attention and MLP are optional.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family stablelm_family();

}  // namespace packtrain

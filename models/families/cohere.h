// Command R (model_type "cohere"; Cohere, 2024): Cohere 2 without windows, so that each layer
// turns. Command R+ has layer norms of queries and keys, with weights of each head.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family cohere_family();

}  // namespace packtrain

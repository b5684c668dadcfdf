// Qwen2 and Qwen2.5 (model_type "qwen2"; Yang et al., arXiv 2407.10671): Llama's layout with biases
// on the query, key and value projections. Sliding windows, which their configs offer and leave
// off, are refused.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family qwen2_family();

}  // namespace packtrain

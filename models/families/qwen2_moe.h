// Qwen2-MoE (Qwen1.5-MoE, Qwen2-57B-A14B): Qwen2 with experts in all or some layers, and a gated
// shared expert for all tokens.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family qwen2_moe_family();

}  // namespace packtrain

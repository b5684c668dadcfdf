// Qwen2-MoE (Qwen1.5-MoE, Qwen2-57B-A14B): Qwen2 with experts, which need not be in every layer,
// and an expert for all tokens beside them, scaled by a gate.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family qwen2_moe_family();

}  // namespace packtrain

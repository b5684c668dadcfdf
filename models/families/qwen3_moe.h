// Qwen3-MoE: Qwen3 (norms of queries and keys) with experts in all or some layers.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family qwen3_moe_family();

}  // namespace packtrain

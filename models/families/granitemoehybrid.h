// Granite 4 (model_type "granitemoehybrid"): Granite's multipliers. Most layers have Mamba-2's
// state space model instead of attention, which has no rotary positions unless
// position_embedding_type is "rope". Layers have experts next to an MLP for all tokens, or that MLP
// alone.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family granitemoehybrid_family();

}  // namespace packtrain

// MiniMax-M2 (model_type "minimax_m2"; MiniMax, 2025). It has norms over all queries and all keys
// of a token. A part of each head turns. All layers have experts. Their sigmoid router
// (models/ops/experts/sigmoid_router.h) has a bias of the choice; there is no shared expert.
// Modules that predict further tokens are left out, as by transformers.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family minimax_m2_family();

}  // namespace packtrain

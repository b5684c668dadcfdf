// MiniMax-M2 (model_type "minimax_m2"; MiniMax, 2025): norms over all queries and all keys of a
// token, a part of each head turned, and experts in all layers. Their sigmoid router
// (models/ops/experts/sigmoid_router.h) has a bias of the choice; there is no shared expert.
// Modules that predict further tokens are left out, as by transformers.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family minimax_m2_family();

}  // namespace packtrain

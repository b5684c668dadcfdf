// GLM-4.5 and 4.6 (model_type "glm4_moe"; Zeng et al., arXiv 2508.06471). Llama's layout has a part
// of each head turned, optional norms of heads, and experts. The experts have a sigmoid router
// (models/ops/experts/sigmoid_router.h) and a shared expert. The first layers are dense. Layers
// that predict further tokens (num_nextn_predict_layers) are left out, as by transformers.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family glm4_moe_family();

}  // namespace packtrain

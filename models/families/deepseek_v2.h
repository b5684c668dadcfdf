// DeepSeek-V2 and Coder-V2 (model_type "deepseek_v2"; DeepSeek-AI, arXiv 2405.04434). Latent
// attention (latent_layout.h) that turns neighbours, and experts with a softmax router. Each token
// may choose groups of experts first, by the best expert of each. The weights of the chosen experts
// have a factor and are not normalized. There are shared experts, and the first layers are dense.
// The norms of compressed rows have epsilon 1e-6 in any model.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family deepseek_v2_family();

}  // namespace packtrain

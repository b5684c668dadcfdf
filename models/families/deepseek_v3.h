// DeepSeek-V3 and R1, Moonlight (model_type "deepseek_v3"; DeepSeek-AI, arXiv 2412.19437).
// Latent attention (latent_layout.h) and experts with a sigmoid router (sigmoid_experts.h). The
// first layers are dense. The norms of compressed rows have epsilon 1e-6 in any model. Layers that
// predict further tokens are left out, as by transformers. The bias of the choice of experts is a
// constant: it is not updated in training.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family deepseek_v3_family();

}  // namespace packtrain

// Llama and all models with its layout (model_type "llama"; arXiv 2302.13971 and 2407.21783):
// pre-norm RMSNorm, rotary positions, grouped-query attention, SwiGLU.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family llama_family();

}  // namespace packtrain

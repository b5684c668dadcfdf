// Youtu-LLM (model_type "youtu"; Tencent, 2025): the latent attention of DeepSeek-V3 with an MLP in
// each layer. Our random weights have one width for all matrices, the embedding included
// (initializer_range).
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family youtu_family();

}  // namespace packtrain

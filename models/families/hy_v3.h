// Hunyuan 3 (model_type "hy_v3"; Tencent, 2026): Llama's layout with norms of queries and keys, and
// the router of DeepSeek-V3 after a dense layer. Layers that predict further tokens (from
// model.layers.80 on) are left out, as by transformers.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family hy_v3_family();

}  // namespace packtrain

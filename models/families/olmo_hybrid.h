// OLMo Hybrid: layers with a gated delta rule, and one of four with attention. Those with attention
// are OLMo 3's, with norms after both branches, which may lack rotary positions. The others have
// norms before both branches. Strengths of the delta rule may reach 2. Files have its convolution
// in three tensors. Those of published files are of queries, keys and values. Those that
// transformers writes have about equal rows.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family olmo_hybrid_family();

}  // namespace packtrain

// OLMo (model_type "olmo"; Groeneveld et al., arXiv 2402.00838): Llama's layout with layer norms
// that have no weights. If clip_qkv is set, queries, keys and values are clipped.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family olmo_family();

}  // namespace packtrain

// The language model of Gemma 3 (model_type "gemma3_text"; Gemma Team, arXiv 2503.19786): Gemma 2
// without attention's soft-cap, with norms of queries and keys, windows in five of six layers and
// rotary positions of their own in these.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family gemma3_text_family();

}  // namespace packtrain

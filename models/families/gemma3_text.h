// The language model of Gemma 3 (model_type "gemma3_text"; Gemma Team, arXiv 2503.19786): Gemma 2
// without attention's soft cap. It has norms of queries and keys. Five of six layers have windows
// and their own rotary positions.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family gemma3_text_family();

}  // namespace packtrain

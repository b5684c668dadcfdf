// Mistral (model_type "mistral"; Jiang et al., arXiv 2310.06825): Llama's layout without biases and
// with a sliding window in all layers: none (null) from v0.2 on; not set it is 4096, as for
// transformers. transformers' fallbacks of num_key_value_heads (8) and max_position_embeddings
// (131072) are not Llama's: these keys must be set.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family mistral_family();

}  // namespace packtrain

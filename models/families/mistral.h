// Mistral (model_type "mistral"; Jiang et al., arXiv 2310.06825): Llama's layout without biases and
// with a sliding window in all layers. From v0.2 on there is no window (null). If the key is not
// set the window is 4096, as in transformers. num_key_value_heads and max_position_embeddings must
// be set. Their fallbacks in transformers (8 and 131072) are not Llama's.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family mistral_family();

}  // namespace packtrain

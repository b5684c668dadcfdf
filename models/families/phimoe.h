// Phi-3.5-MoE (model_type "phimoe"; Abdin et al., arXiv 2404.14219): Mixtral with biases, layer
// norms and a sparse mixer of two experts a token (models/ops/experts/sparse_mixer.h). Longrope has
// one factor of cosine and sine in the config (short_mscale, long_mscale). Examples of more tokens
// than original_max_position_embeddings turn by long_factor, as those of Phi-3 do.
// transformers 5.17 turns them by short_factor.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family phimoe_family();

}  // namespace packtrain

// Mixtral (Jiang et al., arXiv 2401.04088): Mistral with experts in every layer. The weights of the
// chosen experts sum to 1.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family mixtral_family();

// Maps the tensors of a layer's experts as published: block_sparse_moe.experts.E.w1, w3 and w2.
void add_mixtral_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer);
// As save_pretrained's model has them: mlp.experts.gate_up_proj and mlp.experts.down_proj.
void add_stacked_mixtral_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer);

}  // namespace packtrain

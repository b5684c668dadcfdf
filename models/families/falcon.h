// Falcon (model_type "falcon"; Almazrouei et al., arXiv 2311.16867). 7B has one key and value head,
// and one norm for its parallel attention and MLP. The new decoder (11B, 40B, 180B) has groups of
// heads and two norms. Sequential branches are supported too. ALiBi (Falcon-RW) is refused.
#pragma once

#include <string>

#include "models/families/family.h"

namespace packtrain {

Family falcon_family();

// Maps a layer's projection of queries, keys and values, one tensor in the files. It has, for each
// key head, the rows of its query heads, of the key head and of its value head. The names lack
// `.weight` and `.bias`.
void add_qkv_by_groups(WeightMap& map, const DecoderConfig& config, const std::string& ours,
                       const std::string& hf);

}  // namespace packtrain

// Falcon (model_type "falcon"; Almazrouei et al., arXiv 2311.16867). 7B has one key and value head,
// and one norm for its parallel attention and MLP. The new decoder (11B, 40B, 180B) has groups of
// heads and two norms. Sequential branches are supported too. ALiBi (Falcon-RW) is refused.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family falcon_family();

}  // namespace packtrain

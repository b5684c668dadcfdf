// LFM2-MoE (Liquid AI). The mixers and the first layers are those of LFM2. Other layers have
// experts. A sigmoid router chooses them by scores with a bias, and divides their weights by the
// sum plus 1e-6.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family lfm2_moe_family();

}  // namespace packtrain

// OLMo 3 (model_type "olmo3"; OLMo Team, "Olmo 3", 2025): OLMo 2 with windows in three of four
// layers, and rotary positions by kind of layer (scaled in those that see everything).
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family olmo3_family();

}  // namespace packtrain

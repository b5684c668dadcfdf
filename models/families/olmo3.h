// OLMo 3 (model_type "olmo3"; OLMo Team, "Olmo 3", 2025): OLMo 2 with windows in three of four
// layers. Layers with and without window have different rotary positions, scaled in those without.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family olmo3_family();

}  // namespace packtrain

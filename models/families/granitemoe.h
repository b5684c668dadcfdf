// GraniteMoE (Granite 3.0 1B-A400M and 3B-A800M): Granite with experts in every layer, and a
// softmax over the chosen experts.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family granitemoe_family();

}  // namespace packtrain

// GraniteMoE (Granite 3.0 1B-A400M and 3B-A800M): Granite with experts in every layer; softmax over
// the chosen ones.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family granitemoe_family();

}  // namespace packtrain

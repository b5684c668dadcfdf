// Bamba (IBM, Princeton and UIUC): Llama's decoder with Mamba-2's state space model in most layers
// instead of attention. Rotary positions turn half of a head.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family bamba_family();

}  // namespace packtrain

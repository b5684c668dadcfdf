// Helium 1 (model_type "helium"; Kyutai, 2025): Llama with rotary positions that turn neighbours.
// Heads together are as wide as the hidden state. The output of attention has no bias.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family helium_family();

}  // namespace packtrain

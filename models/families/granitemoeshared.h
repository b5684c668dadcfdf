// GraniteMoE with a shared expert (model_type "granitemoeshared"): an additional MLP for all tokens
// where shared_intermediate_size is not 0.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family granitemoeshared_family();

}  // namespace packtrain

// Arcee (model_type "arcee"; AFM-4.5B): Llama's layout with an MLP without gate and a squared ReLU.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family arcee_family();

}  // namespace packtrain

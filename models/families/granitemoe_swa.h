// GraniteMoE with windows (model_type "granitemoe_swa"; IBM, 2026): the attention of granite_swa
// and the experts of granitemoeshared. Files have the names of transformers' modules. transformers
// fails where the balancing loss is on, which is refused.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family granitemoe_swa_family();

}  // namespace packtrain

// FlexOlmo (model_type "flex_olmo"; Ai2, arXiv 2507.07024): the layout of OLMo 2 with the experts
// of OLMoE.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family flex_olmo_family();

}  // namespace packtrain

// Nemotron (model_type "nemotron"; Parmar et al., arXiv 2402.16819): layer norms that scale by
// 1 + weight, an MLP without gate and a squared ReLU. Half of a head rotates.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family nemotron_family();

}  // namespace packtrain

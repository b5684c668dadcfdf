// AFMoE (model_type "afmoe"; Arcee AI, 2025; Trinity Nano and Mini). Each branch has norms before
// and after it. A projection of its own gates the output of attention. Layers with a window turn,
// and the others do not. Experts have the router of DeepSeek-V3.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family afmoe_family();

}  // namespace packtrain

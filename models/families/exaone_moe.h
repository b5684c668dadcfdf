// K-EXAONE (model_type "exaone_moe"; LG AI Research, 2026). It has the attention of EXAONE 4 with
// norms before each branch. Experts are those of DeepSeek-V3 under other names, after some dense
// layers. Modules that predict further tokens (mtp.*) are left out, as by transformers.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family exaone_moe_family();

}  // namespace packtrain

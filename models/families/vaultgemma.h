// VaultGemma (model_type "vaultgemma"; Google, 2025): Gemma 2 without the norms after branches.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family vaultgemma_family();

}  // namespace packtrain

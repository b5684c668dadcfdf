// HyperCLOVA X SEED Think (model_type "hyperclovax"; NAVER, 2025): Granite with norms after each
// branch too (use_post_norm). logits_scaling multiplies logits, where Granite divides by it.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family hyperclovax_family();

}  // namespace packtrain

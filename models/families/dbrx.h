// DBRX (model_type "dbrx", Databricks, 2024): layer norms without biases, clipped queries, keys and
// values, experts in every layer; merged projections, and tensors of all experts stacked by rows.
// Published configs have the rotary base in attn_config, where transformers 5 does not look: it
// takes 10000 for them, we what they were trained with. Exported ones have it in both places.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family dbrx_family();

}  // namespace packtrain

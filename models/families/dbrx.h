// DBRX (model_type "dbrx", Databricks, 2024): layer norms without biases, clipped queries, keys and
// values, experts in every layer. Projections are merged, and the tensors of all experts are
// stacked by rows. Published configs have the rotary base in attn_config. transformers 5 does not
// read it there and uses 10000; we use the base of training. Exported configs have it in both
// places.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family dbrx_family();

}  // namespace packtrain

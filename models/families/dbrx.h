// DBRX (model_type "dbrx", Databricks, 2024): layer norms without biases, clipped queries, keys and
// values, experts in every layer; merged projections, and tensors of all experts stacked by rows.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family dbrx_family();

}  // namespace packtrain

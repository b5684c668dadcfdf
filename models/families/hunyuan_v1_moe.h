// Hunyuan with experts (model_type "hunyuan_v1_moe"; Tencent, 2025; Hunyuan-A13B): the attention of
// hunyuan_v1_dense. Each layer has experts and one shared expert of the same width. Lists of one
// number for each layer must have equal numbers.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family hunyuan_v1_moe_family();

}  // namespace packtrain

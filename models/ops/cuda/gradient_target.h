// A parameter's gradient, as kernels write it.
#pragma once

#include "models/block.h"
#include "models/ops/cuda/column_sums.h"

namespace packtrain {

// Of a null or frozen parameter: a target that is not wanted. Throws Error(kInternal) naming `what`
// unless the gradient is contiguous float32 or bfloat16.
GradientTarget gradient_target(const Parameter* parameter, const char* what);

}  // namespace packtrain

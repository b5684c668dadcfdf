// A parameter's gradient in the form that kernels take.
#pragma once

#include "models/block/block.h"
#include "models/ops/cuda/column_sums.h"

namespace packtrain {

// The target of a null or frozen parameter has a null gradient. Throws Error(kInternal), which
// names `what`, unless the gradient is contiguous and float32 or bfloat16.
GradientTarget gradient_target(const Parameter* parameter, const char* what);

}  // namespace packtrain

// Writing a weight gradient where it belongs.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

// Writes `value` (any float dtype) into parameter.grad, or adds it; nothing when grad is undefined.
void write_gradient(const Parameter& parameter, const at::Tensor& value);
// The same with left [M, K] x right [K, N], written or added to by the product itself; the gradient
// is float32 or has their dtype.
void write_gradient_gemm(const Parameter& parameter, const at::Tensor& left,
                         const at::Tensor& right);
// The gradient of a parameter that had no part in this micro-batch.
void write_zero_gradient(const Parameter& parameter);

}  // namespace packtrain

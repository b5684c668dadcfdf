// Writes a weight gradient to its parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/block/block.h"

namespace packtrain {

// Writes `value` (any float dtype) to parameter.grad, or adds it. Does nothing when grad is
// undefined.
void write_gradient(const Parameter& parameter, const at::Tensor& value);
// The same for scale left [M, K] x right [K, N]. The GEMM itself writes or adds. The gradient is
// float32 or has their dtype.
void write_gradient_gemm(const Parameter& parameter, const at::Tensor& left,
                         const at::Tensor& right, const GemmTiming& timing, double scale = 1.0);
// write_gradient() of several parameters, all with a gradient, in one launch on a GPU.
void write_gradients(const std::vector<const Parameter*>& parameters,
                     const std::vector<at::Tensor>& values);
// The gradient of a parameter that this micro-batch did not use.
void write_zero_gradient(const Parameter& parameter);

}  // namespace packtrain

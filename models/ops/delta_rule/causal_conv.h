// A causal convolution of each channel over the rows of its own sequence, with an activation:
//    z_t = b + sum over l < W of w_{W - 1 - l} x_{t - l},   y = z or silu(z)
// where x is zero before the first row of t's sequence. x and y [T, C] are float32 or bfloat16. The
// weight w [C, W] and the bias b [C] have the same dtype, their gradients that dtype or float32.
// `boundaries` are those of delta_rule.h. Computes in float32 and rounds once. Deterministic on the
// CPU. Backward computes z again. It has no CUDA kernel yet. T C W multiply-adds forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "models/block/block.h"

namespace packtrain {

struct CausalConvParameters {
  const Parameter& weight;
  const Parameter* bias = nullptr;  // or null
};

struct CausalConvOptions {
  std::span<const std::int32_t> boundaries;
  bool silu = true;
};

// Throws Error(kInternal), which names shapes, when they do not fit, and on CUDA tensors.
at::Tensor causal_conv_forward(const at::Tensor& x, const CausalConvParameters& parameters,
                               const CausalConvOptions& options);
// Writes the gradients of the parameters and returns dx.
at::Tensor causal_conv_backward(const at::Tensor& grad_output, const at::Tensor& x,
                                const CausalConvParameters& parameters,
                                const CausalConvOptions& options);

}  // namespace packtrain

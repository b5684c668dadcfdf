// A causal convolution of each channel over the rows of its own sequence, with an activation:
//    z_t = b + sum over l < W of w_{W - 1 - l} x_{t - l},   y = z or silu(z)
// where x is zero before the first row of t's sequence. x and y [T, C] are float32 or bfloat16. The
// weight w [C, W] and the bias b [C] have the same dtype, their gradients that dtype or float32.
// `boundaries` are those of delta_rule.h. Computes in float32 and rounds once. Deterministic.
// Backward computes z again. T C W multiply-adds forward.
//
// On a GPU W is at most 8, and other sequences change no bit of a row of y or dx. Forward must move
// 2 T C elements, backward 3 T C. The kernels read `device_boundaries`, so that a CUDA graph can
// have them. Without these each call copies the boundaries from the host, which a capture refuses.
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
  // The same boundaries as int32 [sequences + 1] on x's device. Undefined: they are copied.
  at::Tensor device_boundaries = {};
};

// Throws Error(kInternal), which names shapes, when they do not fit.
at::Tensor causal_conv_forward(const at::Tensor& x, const CausalConvParameters& parameters,
                               const CausalConvOptions& options);
// Writes the gradients of the parameters, and dx to `grad_x` [T, C], whose rows may have gaps.
void causal_conv_backward(const at::Tensor& grad_output, const at::Tensor& x,
                          const CausalConvParameters& parameters, const CausalConvOptions& options,
                          const at::Tensor& grad_x);

// The same on CUDA tensors, whose shapes fit. Throws Error(kInternal) for other dtypes or widths.
// no_cuda_mixers.cpp has them in a build without CUDA.
at::Tensor causal_conv_forward_cuda(const at::Tensor& x, const CausalConvParameters& parameters,
                                    const CausalConvOptions& options);
void causal_conv_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                               const CausalConvParameters& parameters,
                               const CausalConvOptions& options, const at::Tensor& grad_x);

}  // namespace packtrain

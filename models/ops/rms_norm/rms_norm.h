// Root-mean-square normalization (Zhang and Sennrich, arXiv 1910.07467) over the last dimension:
//    r = 1 / sqrt(mean(x^2) + epsilon);  v = offset + w;  y = x r v
//    dx = r (g v - x r mean(g v x r)) + grad_residual;   dw = sum over rows of g x r
// x and y [T, H] are float32 or bfloat16. w [H] has the same dtype, dw that dtype or float32.
// Computes in float32 and rounds once. Any H is allowed; rows of whole 16-byte vectors are fast.
// Deterministic: partial sums of dw follow a fixed partition of the rows.
//
// Elements that must move: forward 2 T H, backward 3 T H. grad_residual and recomputed_output add T
// H each.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

struct RmsNormOptions {
  double epsilon = 1e-6;
  double weight_offset = 0;  // Gemma keeps weights around 0 and scales by 1 + w
};

struct RmsNormOutput {
  at::Tensor y;
  at::Tensor inverse_rms;  // float32 [T, 1], for backward
};

// Also writes the amax of y to `amax` (make_fp8_amax() in ops/fp8/fp8.h), when it is defined.
RmsNormOutput rms_norm_forward(const at::Tensor& x, const Parameter& weight,
                               const RmsNormOptions& options, const at::Tensor& amax = {});
// Writes dw. Returns dx, plus grad_residual when it is defined. Writes y to `recomputed_output` [T,
// H] when it is defined.
at::Tensor rms_norm_backward(const at::Tensor& grad_output, const at::Tensor& x,
                             const at::Tensor& inverse_rms, const Parameter& weight,
                             const RmsNormOptions& options, const at::Tensor& grad_residual = {},
                             const at::Tensor& recomputed_output = {});

// The same for strided rows without copies, as queries have between keys and values. The tensors x,
// y and grad [T, H] have the same row stride and contiguous elements. Both throw Error(kInternal)
// for other tensors.
//
// Writes y, which must not overlap x, and returns inverse_rms.
at::Tensor rms_norm_forward_into(const at::Tensor& y, const at::Tensor& x, const Parameter& weight,
                                 const RmsNormOptions& options);
// Writes dw and replaces `grad`, the gradient of y, by dx.
void rms_norm_backward_(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& inverse_rms,
                        const Parameter& weight, const RmsNormOptions& options);

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
RmsNormOutput rms_norm_forward_cuda(const at::Tensor& x, const Parameter& weight,
                                    const RmsNormOptions& options, const at::Tensor& amax);
at::Tensor rms_norm_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                                  const at::Tensor& inverse_rms, const Parameter& weight,
                                  const RmsNormOptions& options, const at::Tensor& grad_residual,
                                  const at::Tensor& recomputed_output);
at::Tensor rms_norm_forward_into_cuda(const at::Tensor& y, const at::Tensor& x,
                                      const Parameter& weight, const RmsNormOptions& options);
void rms_norm_backward_cuda_(const at::Tensor& grad, const at::Tensor& x,
                             const at::Tensor& inverse_rms, const Parameter& weight,
                             const RmsNormOptions& options);

}  // namespace packtrain

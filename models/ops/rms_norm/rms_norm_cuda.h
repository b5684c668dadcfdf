#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/rms_norm/rms_norm.h"

namespace packtrain {

// The functions of rms_norm.h on CUDA tensors.
RmsNormOutput rms_norm_forward_cuda(const at::Tensor& x, const Parameter& weight,
                                    const RmsNormOptions& options, const at::Tensor& residual);
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

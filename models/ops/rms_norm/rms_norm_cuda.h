#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/rms_norm/rms_norm.h"

namespace packtrain {

// As rms_norm_forward and rms_norm_backward, on CUDA tensors.
RmsNormOutput rms_norm_forward_cuda(const at::Tensor& x, const Parameter& weight,
                                    const RmsNormOptions& options, const at::Tensor& residual);
at::Tensor rms_norm_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                                  const at::Tensor& inverse_rms, const Parameter& weight,
                                  const RmsNormOptions& options, const at::Tensor& grad_residual,
                                  const at::Tensor& remade_y);

}  // namespace packtrain

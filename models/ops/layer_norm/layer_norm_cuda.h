#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/layer_norm/layer_norm.h"

namespace packtrain {

// The functions of layer_norm.h on CUDA tensors.
LayerNormOutput layer_norm_forward_cuda(const at::Tensor& x, const Parameter& weight,
                                        const Parameter* bias, const LayerNormOptions& options,
                                        const at::Tensor& residual);
at::Tensor layer_norm_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                                    const at::Tensor& mean, const at::Tensor& inverse_deviation,
                                    const Parameter& weight, const Parameter* bias,
                                    const at::Tensor& grad_residual,
                                    const at::Tensor& recomputed_output);

}  // namespace packtrain

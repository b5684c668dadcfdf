#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/activation/activation.h"

namespace packtrain {

// The functions of activation.h on CUDA tensors.
at::Tensor activation_forward_cuda(const at::Tensor& x, const Activation& activation);
at::Tensor activation_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                                    const Activation& activation,
                                    const at::Tensor& recomputed_output);

}  // namespace packtrain

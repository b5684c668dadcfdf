#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/embedding/embedding.h"

namespace packtrain {

// The functions of embedding.h on CUDA tensors.
at::Tensor embedding_forward_cuda(const at::Tensor& ids, const Parameter& weight);
void embedding_backward_cuda(const at::Tensor& grad_output, const at::Tensor& ids,
                             const Parameter& weight);

}  // namespace packtrain

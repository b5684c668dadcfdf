#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

// As swiglu_forward and swiglu_backward, on CUDA tensors.
at::Tensor swiglu_forward_cuda(const at::Tensor& gate_up);
at::Tensor swiglu_backward_cuda(const at::Tensor& grad_output, const at::Tensor& gate_up);

}  // namespace packtrain

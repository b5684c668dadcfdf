// The cutoff of an MLP's gates that makes most activations 0 (Gemma 3n). Of normally distributed
// gates the share q is below mean + z deviation, with z the q-quantile of the normal distribution.
//    gate' = max(gate - (mean + z deviation), 0);  up' = up
// Mean and deviation are those of the row's gates. The deviation divides by I, not by I - 1.
// Gradients pass through both, as in transformers. x [T, 2 I] is [gate | up], float32 or bfloat16.
// Computes in float32 and rounds once. Deterministic. Kernels move 4 T I elements in forward and 3
// T I in backward. The CPU has libtorch's operators.
#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

// z for the share q in (0, 1).
double normal_quantile(double share);

// [T, 2 I]: gate' and up'.
at::Tensor gate_cutoff_forward(const at::Tensor& x, double quantile);
// Replaces `grad`, the gradient of [gate' | up'], by that of x. On a GPU it must be contiguous.
void gate_cutoff_backward_(const at::Tensor& grad, const at::Tensor& x, double quantile);

// On CUDA tensors. The functions above call these; no_cuda_mixers.cpp has them in a build without
// CUDA.
at::Tensor gate_cutoff_forward_cuda(const at::Tensor& x, double quantile);
void gate_cutoff_backward_cuda_(const at::Tensor& grad, const at::Tensor& x, double quantile);

}  // namespace packtrain

// The gate of attention's output (Qwen3-Next), with s the logistic function:
//    y = x s(z);   dx = g s(z);   dz = g x s(z) (1 - s(z))
// x, y and z [T, W] are float32 or bfloat16. Rows of z and dz may have gaps. Computes in float32
// and rounds once. Deterministic.
//
// Elements that must move: forward 3 T W, backward 5 T W.
#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

// Throws Error(kInternal), which names shapes, when they do not fit.
at::Tensor output_gate_forward(const at::Tensor& x, const at::Tensor& z);
// Writes dz to `grad_z` [T, W]. Returns dx. Writes y to `recomputed_output` [T, W] when it is
// defined.
at::Tensor output_gate_backward(const at::Tensor& grad_output, const at::Tensor& x,
                                const at::Tensor& z, const at::Tensor& grad_z,
                                const at::Tensor& recomputed_output = {});

// On CUDA tensors. The functions above call these; no_cuda_mixers.cpp has them in a build without
// CUDA.
at::Tensor output_gate_forward_cuda(const at::Tensor& x, const at::Tensor& z);
at::Tensor output_gate_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                                     const at::Tensor& z, const at::Tensor& grad_z,
                                     const at::Tensor& recomputed_output);

}  // namespace packtrain

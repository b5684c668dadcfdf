// Root-mean-square normalization of each head, times a gate (the output of a gated delta rule):
//    r = 1 / sqrt(mean of x^2 + epsilon);   n = x r;   u = z s(z);   y = n w u
//    dx = r (v - n mean(v n)), v = g w u;   dw = sum over rows and heads of g n u
//    dz = g n w s(z) (1 + z (1 - s(z)))
// Here s is the logistic function and g the gradient of y. The rows x, y and z [T, H, V] are
// float32 or bfloat16. w [V] has the same dtype or float32, dw float32 or bfloat16. Rows of z may
// have gaps. Computes in float32 and rounds once. Deterministic: partial sums of dw follow a fixed
// partition.
//
// Elements that must move: forward 3 T H V, backward 5 T H V. A recomputed output adds T H V.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

struct GatedNormOutput {
  at::Tensor y;
  at::Tensor inverse_rms;  // float32 [T, H], for backward
};

// The backward reads these and the gradient of y.
struct GatedNormSaved {
  at::Tensor x;
  at::Tensor z;
  at::Tensor inverse_rms;
};

// Throws Error(kInternal), which names shapes, when they do not fit.
GatedNormOutput gated_norm_forward(const at::Tensor& x, const at::Tensor& z,
                                   const Parameter& weight, double epsilon);
// Writes dw, and dz to `grad_z` [T, H, V], whose rows may have gaps. Returns dx. Writes y to
// `recomputed_output` [T, H, V] when it is defined.
at::Tensor gated_norm_backward(const at::Tensor& grad_output, const GatedNormSaved& saved,
                               const Parameter& weight, const at::Tensor& grad_z,
                               const at::Tensor& recomputed_output = {});

// On CUDA tensors. The functions above call these; no_cuda_mixers.cpp has them in a build without
// CUDA.
GatedNormOutput gated_norm_forward_cuda(const at::Tensor& x, const at::Tensor& z,
                                        const Parameter& weight, double epsilon);
at::Tensor gated_norm_backward_cuda(const at::Tensor& grad_output, const GatedNormSaved& saved,
                                    const Parameter& weight, const at::Tensor& grad_z,
                                    const at::Tensor& recomputed_output);

}  // namespace packtrain

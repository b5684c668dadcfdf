// Root-mean-square normalization of a product with a gate (the output of Mamba-2's state space
// model), with s the logistic function:
//    u = x z s(z);   r = 1 / sqrt(mean of u^2 over a part + epsilon);   y = u r w
//    du = r (v - u r mean of v u r), v = g w;   dw = sum over rows of g u r
//    dx = du z s(z);   dz = du x s(z) (1 + z (1 - s(z)))
// Here g is the gradient of y. A row has `parts` equal parts. Each has a norm of its own. Rows x,
// y and z [T, W] are float32 or bfloat16, and rows of z may have gaps. The weight w [W] has the
// same dtype or float32. Computes in float32 and rounds once. On CUDA parts have up to 16,384
// elements. Deterministic: partial sums of dw follow a fixed partition.
//
// Elements that must move: forward 3 T W, backward 5 T W. A recomputed output adds T W.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block/block.h"

namespace packtrain {

struct ProductNormOptions {
  double epsilon = 1e-6;
  std::int64_t parts = 1;  // a divisor of W
};

// Throws Error(kInternal), which names shapes, when they do not fit.
at::Tensor product_norm_forward(const at::Tensor& x, const at::Tensor& z, const Parameter& weight,
                                const ProductNormOptions& options);
// Writes dw, and dz to `grad_z` [T, W], whose rows may have gaps. Returns dx. Writes y to
// `recomputed_output` [T, W] when it is defined.
at::Tensor product_norm_backward(const at::Tensor& grad_output, const at::Tensor& x,
                                 const at::Tensor& z, const Parameter& weight,
                                 const ProductNormOptions& options, const at::Tensor& grad_z,
                                 const at::Tensor& recomputed_output = {});

// Without a norm: y = u, dx = g z s(z). Writes dz to `grad_z` and returns dx.
at::Tensor gated_product_forward(const at::Tensor& x, const at::Tensor& z);
at::Tensor gated_product_backward(const at::Tensor& grad_output, const at::Tensor& x,
                                  const at::Tensor& z, const at::Tensor& grad_z);

// On CUDA tensors. The functions above call these, without a weight for the product without a norm.
// no_cuda_mixers.cpp has them in a build without CUDA.
at::Tensor product_norm_forward_cuda(const at::Tensor& x, const at::Tensor& z,
                                     const Parameter* weight, const ProductNormOptions& options);
at::Tensor product_norm_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                                      const at::Tensor& z, const Parameter* weight,
                                      const ProductNormOptions& options, const at::Tensor& grad_z,
                                      const at::Tensor& recomputed_output);

}  // namespace packtrain

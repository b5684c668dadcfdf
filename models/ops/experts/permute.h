// Permutes token rows to expert order and back. Row t of T has k slots, and slot s is row
// permuted_rows[t, s] of A = T k rows, each of which occurs once. With p = permuted_rows:
//    unpermute_sum        y_t = r_t + sum over s of w[t, s] v[p[t, s]]
//    permute_rows         v[p[t, s]] = w[t, s] x_t
//    grad_routing_weight  d[t, s] = (a[p[t, s]] . b[p[t, s]]) / w[t, s], and 0 where w[t, s] is 0
// If permuted_rows (int32 [T, k]) is undefined, each row has one slot, the row itself. If w
// (float32 [T, k]) is undefined it is 1. An undefined r means 0, an undefined b 1. Shapes: v, a and
// b are [A, H], and r, x and y are [T, H]. All have one dtype, float32 or bfloat16. The result d is
// float32 [T, k]. Sums are float32. The order of unpermute_sum is that of s and then r, with one
// rounding. Deterministic. Elements that must move: (A + T) H, and T H for r; 2 A H for
// grad_routing_weight.
#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

at::Tensor unpermute_sum(const at::Tensor& values, const at::Tensor& permuted_rows,
                         const at::Tensor& weights, const at::Tensor& addend);
at::Tensor permute_rows(const at::Tensor& rows, const at::Tensor& permuted_rows,
                        const at::Tensor& weights);
at::Tensor grad_routing_weight(const at::Tensor& a, const at::Tensor& b,
                               const at::Tensor& permuted_rows, const at::Tensor& divisors);

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
at::Tensor unpermute_sum_cuda(const at::Tensor& values, const at::Tensor& permuted_rows,
                              const at::Tensor& weights, const at::Tensor& addend);
at::Tensor permute_rows_cuda(const at::Tensor& rows, const at::Tensor& permuted_rows,
                             const at::Tensor& weights);
at::Tensor grad_routing_weight_cuda(const at::Tensor& a, const at::Tensor& b,
                                    const at::Tensor& permuted_rows, const at::Tensor& divisors);

}  // namespace packtrain

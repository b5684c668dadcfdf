// Rows and the slots that copies of them lie in: row t of T has k slots, and places[t, s] says
// which of A rows slot s is. A = T k, each of them once.
//   unpermute_sum      y_t = r_t + sum over s of w[t, s] v[places[t, s]]
//   permute_rows   v[places[t, s]] = w[t, s] x_t
//   grad_routing_weight      d[t, s] = (a[places[t, s]] . b[places[t, s]]) / w[t, s], and 0 where
//   w[t, s] is 0
// places int32 [T, k], or undefined: one slot a row, its own. w float32 [T, k], or undefined: 1.
// r undefined: 0; b undefined: 1. v, a and b [A, H]; r, x and y [T, H]; all of one dtype, float32
// or bfloat16; d float32 [T, k]. Sums in float32, unpermute_sum's in the order of s and then r,
// with one rounding. Deterministic. Elements that must move: (A + T) H, and T H for r; 2 A H of
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

}  // namespace packtrain

// What a row's experts made, added up in the row's order of them:
//   y_t = r_t + sum over s < k of w[t, s] v[places[t, s]]
// v [A, H], r and y [T, H] one dtype, float32 or bfloat16; places int32 [T, k], w float32 [T, k] or
// undefined (1), r or undefined (0). Sums in float32 in the order of s, then r; one rounding.
// Deterministic. Elements that must move: A H + T H, and T H for r.
#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

at::Tensor slot_sum(const at::Tensor& values, const at::Tensor& places, const at::Tensor& weights,
                    const at::Tensor& addend);

}  // namespace packtrain

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace packtrain {

// Turns the first `num_rotated` heads of qkv [T, num_all_heads, D] by (cos, sin) float32 [T, 1, D /
// 2] or, with `direction` -1, back; copies the others. CUDA tensors.
at::Tensor rotary_cuda(const at::Tensor& qkv, std::int64_t num_rotated, const at::Tensor& cos,
                       const at::Tensor& sin, float direction);

}  // namespace packtrain

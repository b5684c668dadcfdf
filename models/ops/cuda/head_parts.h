// Tensors of heads, as kernels see them.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/cuda/heads_launch.h"
#include "models/ops/rotary/rotary.h"

namespace packtrain {

// x [T, heads, D] whose elements of a head lie side by side; made contiguous into `owner` if not.
HeadPart head_part(const at::Tensor& x, at::Tensor& owner);

// Throws Error(kInternal) naming `what` unless the tensors are as rotary_forward_ takes them.
RotaryAngles rotary_angles(const at::Tensor& position_ids, const at::Tensor& frequencies,
                           const RotaryOptions& options, std::int64_t head_dim, const char* what);

}  // namespace packtrain

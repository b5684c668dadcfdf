// Tensors of heads in the form that kernels take.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/cuda/heads_launch.h"
#include "models/ops/rotary/rotary.h"

namespace packtrain {

// x [T, heads, D]. When the elements of a head are not contiguous, copies x to `owner`.
HeadPart head_part(const at::Tensor& x, at::Tensor& owner);

// Throws Error(kInternal), which names `what`, unless the tensors are as rotary_forward_ takes
// them.
RotaryAngles rotary_angles(const at::Tensor& position_ids, const at::Tensor& frequencies,
                           const RotaryOptions& options, std::int64_t head_dim, const char* what);

}  // namespace packtrain

#pragma once

#include <cstdint>

#include "models/ops/delta_rule/causal_conv_launch.h"

namespace packtrain {

// x of the base is the columns x, and x_stride the elements of a row of the projection. Its output
// is y [T, C], or null where backward does not write y.
struct ShortConvArguments : CausalConvArguments {
  const void* b = nullptr;  // [T, C], as x
  const void* c = nullptr;
  // Backward, [T, C] with rows of `grad_stride` elements.
  void* grad_b = nullptr;
  void* grad_c = nullptr;
  void* grad_x = nullptr;
  std::int64_t grad_stride = 0;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_short_conv(const ShortConvArguments& arguments, void* stream);

}  // namespace packtrain

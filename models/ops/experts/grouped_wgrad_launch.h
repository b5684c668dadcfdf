#pragma once

#include <cstdint>

#include "models/ops/cuda/column_sums.h"

namespace packtrain {

// Rows of left and right start at multiples of 16 bytes, `*_stride` elements apart.
struct GroupedWgradArguments {
  const void* left = nullptr;   // bfloat16 [num_rows, num_left]
  const void* right = nullptr;  // bfloat16 [num_rows, num_right]
  std::int64_t left_stride = 0;
  std::int64_t right_stride = 0;
  const std::int32_t* ends = nullptr;  // [num_groups]
  GradientTarget target;               // [num_groups, num_left, num_right]
  std::int64_t num_rows = 0;           // at least 1
  int num_left = 0;
  int num_right = 0;
  int num_groups = 0;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_grouped_wgrad(const GroupedWgradArguments& arguments, void* stream);

}  // namespace packtrain

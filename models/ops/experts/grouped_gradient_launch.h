#pragma once

#include <cstdint>

#include "models/ops/cuda/column_sums.h"

namespace packtrain {

struct GroupedGradientArguments {
  const void* products = nullptr;      // bfloat16 [num_groups, matrix_numel]
  const std::int32_t* ends = nullptr;  // [num_groups]
  GradientTarget target;               // [num_groups, matrix_numel]
  int num_groups = 0;
  std::int64_t matrix_numel = 0;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_grouped_gradient(const GroupedGradientArguments& arguments, void* stream);

}  // namespace packtrain

#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

// Matrices are [num_rows, num_columns], vectors [num_columns].
struct DoraScaleArguments {
  const void* z = nullptr;
  const float* factors = nullptr;
  const void* bias = nullptr;      // or null
  const void* residual = nullptr;  // or null
  void* y = nullptr;
  std::int64_t num_rows = 0;
  std::int64_t num_columns = 0;
  DataType dtype = DataType::kFloat32;  // of all but the factors
};

struct DoraScaleBackwardArguments {
  const void* grad_output = nullptr;
  void* z = nullptr;  // becomes dz
  const float* factors = nullptr;
  float* partial_sums = nullptr;  // [num_splits, num_columns], scratch
  float* sums = nullptr;
  std::int64_t num_rows = 0;
  std::int64_t num_columns = 0;
  std::int64_t num_splits = 0;          // num_bias_gradient_splits()
  DataType dtype = DataType::kFloat32;  // of grad_output and z
};

// `stream` is a cudaStream_t. Both throw Error(kDevice) when a launch fails.
void launch_dora_scale(const DoraScaleArguments& arguments, void* stream);
void launch_dora_scale_backward(const DoraScaleBackwardArguments& arguments, void* stream);

}  // namespace packtrain

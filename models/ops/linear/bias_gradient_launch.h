#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "models/ops/cuda/column_sums.h"

namespace packtrain {

struct BiasGradientArguments {
  const void* grad_output = nullptr;  // [num_rows, num_columns]
  float* partial_sums = nullptr;      // [num_splits, num_columns], scratch
  std::int64_t num_rows = 0;
  std::int64_t num_columns = 0;
  std::int64_t num_splits = 0;
  DataType dtype = DataType::kFloat32;  // dtype of grad_output
  GradientTarget target;
};

// Number of ranges of rows that are summed separately. It depends only on the shape, so sums are
// deterministic.
std::int64_t num_bias_gradient_splits(std::int64_t num_rows, std::int64_t num_columns);

// `stream` is a cudaStream_t. Throws Error(kDevice) when a launch fails.
void launch_bias_gradient(const BiasGradientArguments& arguments, void* stream);

}  // namespace packtrain

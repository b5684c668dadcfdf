// Last step of a weight gradient: adds partial sums, one row for each block, to one row.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

struct GradientTarget {
  void* grad = nullptr;  // [num_columns]; null: not computed
  DataType dtype = DataType::kFloat32;
  bool accumulate = false;  // adds to the old value
};

// partials [num_partials, num_targets, num_columns]
struct ColumnSumsArguments {
  const float* partials = nullptr;
  std::int64_t num_partials = 0;
  std::int64_t num_columns = 0;
  int num_targets = 1;
  GradientTarget targets[2];
};

// Sums in float32. The order depends only on num_partials, so the result is deterministic. `stream`
// is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_column_sums(const ColumnSumsArguments& arguments, void* stream);

}  // namespace packtrain

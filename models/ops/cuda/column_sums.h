// The last step of a weight gradient: partial sums, one row of them a block, to one row.
#pragma once

#include <cstdint>

namespace packtrain {

struct GradientTarget {
  void* grad = nullptr;  // [num_columns]; null: not wanted
  bool bfloat16 = false;
  bool accumulate = false;  // add to what is there
};

// partials [num_partials, num_targets, num_columns]
struct ColumnSumsArguments {
  const float* partials = nullptr;
  std::int64_t num_partials = 0;
  std::int64_t num_columns = 0;
  int num_targets = 1;
  GradientTarget targets[2];
};

// Sums in float32 in an order that only num_partials fixes. `stream` is a cudaStream_t. Throws
// Error(kDevice) when the launch fails.
void launch_column_sums(const ColumnSumsArguments& arguments, void* stream);

}  // namespace packtrain

#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

struct ColumnFactorsArguments {
  void* rows = nullptr;  // [num_rows, num_columns], `stride` elements apart
  std::int64_t num_rows = 0;
  std::int64_t num_columns = 0;
  std::int64_t stride = 0;
  std::int64_t ends[8] = {};  // the column after the last one of each factor
  float factors[8] = {};
  int num_factors = 0;
  DataType dtype = DataType::kFloat32;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_column_factors(const ColumnFactorsArguments& arguments, void* stream);

}  // namespace packtrain

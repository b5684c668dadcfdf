#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

struct ExpandArguments {
  const std::int32_t* rows = nullptr;  // [num_keys]
  std::int64_t num_keys = 0;
  std::int64_t width = 0;       // elements of a row
  std::int64_t row_stride = 0;  // elements from one row of `input` to the next
  DataType dtype = DataType::kFloat32;
};

struct SumCopiesArguments {
  const std::int32_t* first_copy = nullptr;  // [num_rows + 1]
  const std::int32_t* copies = nullptr;      // [first_copy[num_rows]]
  std::int64_t num_rows = 0;
  std::int64_t width = 0;       // elements of a row
  std::int64_t row_stride = 0;  // elements from one row of `output` to the next
  DataType dtype = DataType::kFloat32;
};

// `stream` is a cudaStream_t. Both throw Error(kDevice) when the launch fails. input [rows, width],
// output [num_keys, width].
void launch_expand_rows(const ExpandArguments& arguments, const void* input, void* output,
                        void* stream);
// input [keys, width], output [num_rows, width].
void launch_sum_copies(const SumCopiesArguments& arguments, const void* input, void* output,
                       void* stream);

}  // namespace packtrain

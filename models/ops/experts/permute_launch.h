#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

struct PermuteArguments {
  const std::int32_t* permuted_rows = nullptr;  // [num_rows, num_slots], or null: row t's slot is t
  const float* weights = nullptr;               // [num_rows, num_slots] or null
  std::int64_t num_rows = 0;
  std::int64_t width = 0;
  int num_slots = 1;
  DataType dtype = DataType::kFloat32;
};

// `stream` is a cudaStream_t. All throw Error(kDevice) when the launch fails. values [num_rows *
// num_slots, width]; addend (or null) and output [num_rows, width].
void launch_unpermute_sum(const PermuteArguments& arguments, const void* values, const void* addend,
                          void* output, void* stream);
// rows [num_rows, width], output [num_rows * num_slots, width].
void launch_permute_rows(const PermuteArguments& arguments, const void* rows, void* output,
                         void* stream);
// a and b [num_rows * num_slots, width], output [num_rows, num_slots]. The weights divide.
void launch_grad_routing_weight(const PermuteArguments& arguments, const void* a, const void* b,
                                float* output, void* stream);

}  // namespace packtrain

#pragma once

#include <cstdint>

namespace packtrain {

struct SlotSumArguments {
  const void* values = nullptr;          // [num_values, width]
  const std::int32_t* places = nullptr;  // [num_rows, num_slots]
  const float* weights = nullptr;        // [num_rows, num_slots] or null
  const void* addend = nullptr;          // [num_rows, width] or null
  void* output = nullptr;                // [num_rows, width]
  std::int64_t num_rows = 0;
  std::int64_t width = 0;
  int num_slots = 0;
  bool bfloat16 = false;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_slot_sum(const SlotSumArguments& arguments, void* stream);

}  // namespace packtrain

#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "models/ops/cuda/heads_launch.h"

namespace packtrain {

// Query and key heads of `parts` rotate, value heads are copied. All are written to `output`.
struct RotaryArguments {
  HeadParts parts;
  void* output = nullptr;  // [num_rows, num_output_heads, head_dim]
  std::int64_t num_output_heads = 0;
  std::int64_t num_rows = 0;
  int head_dim = 0;
  bool in_place = false;  // output is the input: elements that do not rotate are not written
  RotaryAngles angles;
  DataType dtype = DataType::kFloat32;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_rotary(const RotaryArguments& arguments, void* stream);

}  // namespace packtrain

#pragma once

#include <cstdint>

namespace packtrain {

struct RotaryArguments {
  const void* qkv = nullptr;   // [num_rows, num_heads, 2 * half]
  void* output = nullptr;      // the same
  const float* cos = nullptr;  // [num_rows, half]
  const float* sin = nullptr;
  std::int64_t num_rows = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_rotated = 0;
  std::int64_t half = 0;
  float direction = 1.0F;
  bool bfloat16 = false;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_rotary(const RotaryArguments& arguments, void* stream);

}  // namespace packtrain

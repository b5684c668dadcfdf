#pragma once

#include <cstdint>

namespace packtrain {

struct RmsNormArguments {
  const void* x = nullptr;            // [num_rows, hidden]
  const void* weight = nullptr;       // [hidden]
  const void* grad_output = nullptr;  // [num_rows, hidden]; null: forward
  void* output = nullptr;             // y, or dx
  float* inverse_rms = nullptr;       // [num_rows]; written by forward, read by backward
  float* weight_sums = nullptr;       // backward: [num_blocks, hidden] partial dw, or null
  std::int64_t num_rows = 0;
  std::int64_t hidden = 0;
  int num_blocks = 0;  // backward: rows are dealt to this many blocks, in a fixed order
  float epsilon = 0;
  bool bfloat16 = false;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_rms_norm(const RmsNormArguments& arguments, void* stream);

}  // namespace packtrain

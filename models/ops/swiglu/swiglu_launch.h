#pragma once

#include <cstdint>

namespace packtrain {

struct SwigluArguments {
  const void* gate_up = nullptr;      // [num_rows, 2 * inner]
  const void* grad_output = nullptr;  // [num_rows, inner]; null: forward
  void* output = nullptr;             // forward [num_rows, inner], backward as gate_up
  std::int64_t num_rows = 0;
  std::int64_t inner = 0;
  bool bfloat16 = false;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_swiglu(const SwigluArguments& arguments, void* stream);

}  // namespace packtrain

#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

// gate_cutoff.h describes them. Arrays [T, 2 I] are contiguous.
struct GateCutoffArguments {
  const void* x = nullptr;
  void* output = nullptr;  // forward: y
  void* grad = nullptr;    // backward: of y, replaced by that of x; null: forward
  std::int64_t num_rows = 0;
  int inner = 0;  // I
  float quantile = 0;
  DataType dtype = DataType::kFloat32;
};

// Forward, or backward when grad is set. `stream` is a cudaStream_t. Throws Error(kDevice) when the
// launch fails.
void launch_gate_cutoff(const GateCutoffArguments& arguments, void* stream);

}  // namespace packtrain

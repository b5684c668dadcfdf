#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

// Rows of `width` elements. Those of z and grad_z are strides apart, all others follow each other.
struct OutputGateArguments {
  const void* x = nullptr;
  const void* z = nullptr;
  const void* grad_output = nullptr;  // null: forward
  void* output = nullptr;             // y, or dx
  void* grad_z = nullptr;             // backward
  void* recomputed_output = nullptr;  // backward: y, or null
  std::int64_t num_rows = 0;
  std::int64_t width = 0;
  std::int64_t z_stride = 0;
  std::int64_t grad_z_stride = 0;
  DataType dtype = DataType::kFloat32;
};

// Forward, or backward when grad_output is set. `stream` is a cudaStream_t. Throws Error(kDevice)
// when the launch fails.
void launch_output_gate(const OutputGateArguments& arguments, void* stream);

}  // namespace packtrain

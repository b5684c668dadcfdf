#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

// From here to 0, exp(x) - 1 - x is computed by its series, up to x^6.
constexpr float kXieluNear = -0.25F;

// Contiguous arrays of `numel` elements.
struct XieluArguments {
  const void* x = nullptr;
  const void* grad_output = nullptr;  // null: forward
  void* output = nullptr;             // y, or dx, which may be x
  void* recomputed_output = nullptr;  // backward: y, which may be grad_output, or null
  const float* numbers = nullptr;     // p, n, b, e
  float* sums = nullptr;              // backward: [num_blocks, 2], dp and dn of each block
  std::int64_t numel = 0;
  std::int64_t num_blocks = 0;  // xielu_num_blocks()
  DataType dtype = DataType::kFloat32;
};

// The blocks of threads for arrays of this size. Each adds up a fixed set of elements.
std::int64_t xielu_num_blocks(std::int64_t numel);

// Forward, or backward when grad_output is set. `stream` is a cudaStream_t. Throws Error(kDevice)
// when the launch fails.
void launch_xielu(const XieluArguments& arguments, void* stream);

}  // namespace packtrain

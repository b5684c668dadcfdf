#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

// Weights of a channel, at most.
inline constexpr int kCausalConvMaxWidth = 8;
// Rows of a block of threads. Backward has one row of partial sums for each.
inline constexpr std::int64_t kCausalConvRows = 64;

struct CausalConvArguments {
  const void* x = nullptr;            // [T, C]
  std::int64_t x_stride = 0;          // elements from one row to the next
  const void* weight = nullptr;       // [C, W]
  const void* bias = nullptr;         // [C], or null
  const void* grad_output = nullptr;  // [T, C]; null: forward
  void* output = nullptr;             // y or dx, [T, C]
  std::int64_t output_stride = 0;     // elements from one row to the next
  // Backward: [ceil(T / kCausalConvRows), C, W] and [ceil(T / kCausalConvRows), C].
  float* weight_partials = nullptr;
  float* bias_partials = nullptr;            // or null
  const std::int32_t* boundaries = nullptr;  // [num_sequences + 1], on the device
  std::int64_t num_sequences = 0;
  std::int64_t num_rows = 0;
  std::int64_t num_channels = 0;
  int width = 0;  // W
  bool silu = false;
  DataType dtype = DataType::kFloat32;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_causal_conv(const CausalConvArguments& arguments, void* stream);

}  // namespace packtrain

#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "models/ops/cuda/heads_launch.h"

namespace packtrain {

struct QkNormArguments {
  HeadParts qkv;    // queries and keys before the norm; forward does not read values
  HeadParts grads;  // backward; null data means forward
  const void* query_weight = nullptr;  // [head_dim]
  const void* key_weight = nullptr;    // [head_dim]
  void* output = nullptr;        // [num_rows, all heads, head_dim]; forward does not write values
  float* inverse_rms = nullptr;  // [num_rows, queries and keys]; forward writes, backward reads
  float* partials = nullptr;     // backward: [qk_norm_backward_blocks(), 2, head_dim], or null
  std::int64_t num_output_heads = 0;  // all
  std::int64_t num_rows = 0;
  int head_dim = 0;
  float epsilon = 0;
  float weight_offset = 0;
  RotaryAngles angles;
  DataType dtype = DataType::kFloat32;
};

// Rows of partial sums that backward writes for these arguments.
std::int64_t qk_norm_backward_blocks(const QkNormArguments& arguments);

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails, and Error(kInternal) for
// heads that are too wide.
void launch_qk_norm(const QkNormArguments& arguments, void* stream);

}  // namespace packtrain

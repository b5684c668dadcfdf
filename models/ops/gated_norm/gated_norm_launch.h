#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

// The sizes are those of gated_norm.h.
struct GatedNormArguments {
  const void* x = nullptr;            // [T, H, V]
  const void* z = nullptr;            // rows of H V elements, z_stride apart
  const float* weight = nullptr;      // [V]
  const void* grad_output = nullptr;  // [T, H, V]; null: forward
  void* output = nullptr;             // y, or dx; [T, H, V]
  void* grad_z = nullptr;             // backward: rows of H V elements, grad_z_stride apart
  void* recomputed_output = nullptr;  // backward: [T, H, V] or null
  float* inverse_rms = nullptr;       // [T, H]; forward writes it
  float* partials = nullptr;          // backward: [blocks, V] or null
  std::int64_t num_rows = 0;
  std::int64_t z_stride = 0;
  std::int64_t grad_z_stride = 0;
  int num_heads = 0;
  int head_dim = 0;
  float epsilon = 0;
  DataType dtype = DataType::kFloat32;
};

inline constexpr int kGatedNormMaxWidth = 1024;

// Rows of partial sums that backward writes.
std::int64_t gated_norm_backward_blocks(const GatedNormArguments& arguments);
// Forward, or backward when grad_output is set. `stream` is a cudaStream_t. Throws Error(kDevice)
// when the launch fails.
void launch_gated_norm(const GatedNormArguments& arguments, void* stream);

}  // namespace packtrain

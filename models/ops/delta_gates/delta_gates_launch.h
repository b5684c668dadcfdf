#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

// The sizes are those of delta_gates.h.
struct DeltaGatesArguments {
  const void* mixed = nullptr;     // [T, mixed_stride]
  const void* ba = nullptr;        // [T, 2 H]
  const float* a_log = nullptr;    // [H]
  const float* dt_bias = nullptr;  // [H]
  // Forward: outputs. Backward: gradients, which it reads.
  void* q = nullptr;      // [T, G, K]
  void* k = nullptr;      // [T, G, K]
  float* g = nullptr;     // [T, H]
  float* beta = nullptr;  // [T, H]
  // Backward alone.
  const void* grad_v = nullptr;  // [T, H V]
  void* grad_mixed = nullptr;    // [T, 2 G K + H V]
  void* grad_ba = nullptr;       // [T, 2 H]
  float* partials = nullptr;     // [blocks, 2, H]: of A, then of dt; null: not computed
  std::int64_t num_rows = 0;
  std::int64_t mixed_stride = 0;
  std::int64_t value_width = 0;  // H V
  int num_key_heads = 0;
  int key_head_dim = 0;
  int num_heads = 0;
  float beta_multiplier = 1;
  DataType dtype = DataType::kFloat32;
};

inline constexpr int kDeltaGatesMaxHeads = 512;

// Rows of partial sums that backward writes.
std::int64_t delta_gates_backward_blocks(const DeltaGatesArguments& arguments);
// Forward, or backward when grad_mixed is set. `stream` is a cudaStream_t. Throws Error(kDevice)
// when the launch fails.
void launch_delta_gates(const DeltaGatesArguments& arguments, void* stream);

}  // namespace packtrain

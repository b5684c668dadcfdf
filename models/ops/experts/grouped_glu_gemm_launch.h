#pragma once

#include <cstdint>

#include "models/ops/activation/activation_kind.h"

namespace packtrain {

// Forward: x = left W^T, [gate | up], and y = f(gate) u(up). Backward: dy = left W, dx from dy and
// x, y recomputed, and dy . y of each row in parts. Rows start at multiples of 16 bytes. `depth` is
// a multiple of 64 and `inner` of 8.
struct GroupedGluGemmArguments {
  const void* left = nullptr;          // bfloat16 [num_rows, depth]
  const void* weight = nullptr;        // bfloat16 [num_groups, 2 * inner, depth], backward
                                       // [num_groups, depth, inner]
  const std::int32_t* ends = nullptr;  // [num_groups]
  void* x = nullptr;                   // bfloat16 [num_rows, 2 * inner]; backward reads it
  void* y = nullptr;                   // bfloat16 [num_rows, inner]
  void* dx = nullptr;                  // backward: bfloat16 [num_rows, 2 * inner]
  float* dots = nullptr;               // backward: [num_rows, grouped_glu_gemm_parts(inner)]
  std::int64_t num_rows = 0;           // at least 1
  int depth = 0;
  int inner = 0;
  int num_groups = 0;
  ActivationKind kind = ActivationKind::kSilu;
};

// Number of tiles along a row. Each one writes its part of dy . y.
int grouped_glu_gemm_parts(std::int64_t inner);

// `stream` is a cudaStream_t. Both throw Error(kDevice) when the launch fails.
void launch_grouped_glu_gemm_forward(const GroupedGluGemmArguments& arguments, void* stream);
void launch_grouped_glu_gemm_backward(const GroupedGluGemmArguments& arguments, void* stream);

}  // namespace packtrain

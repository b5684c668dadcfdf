#pragma once

#include <cstdint>

#include "models/ops/fp8/fp8_arithmetic.h"

namespace packtrain {

struct Fp8GroupedMatmulArguments {
  const void* left = nullptr;           // [num_rows, depth]
  const void* right = nullptr;          // e4m3 [num_groups, num_columns, depth]
  const float* left_scale = nullptr;    // [1]
  const float* right_scales = nullptr;  // [num_groups, scale_stride]
  const std::int32_t* ends = nullptr;   // [num_groups]
  void* out = nullptr;                  // bfloat16 [num_rows, num_columns]
  std::int64_t num_rows = 0;            // at least 1
  int depth = 0;                        // a multiple of 16, as num_columns
  int num_columns = 0;
  int num_groups = 0;
  int scale_stride = 0;
  Fp8Format left_format = Fp8Format::kE4M3;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_fp8_grouped_matmul(const Fp8GroupedMatmulArguments& arguments, void* stream);

}  // namespace packtrain

#pragma once

#include <cstdint>

#include "models/ops/fp8/fp8_arithmetic.h"

namespace packtrain {

constexpr int kMaxLoraGemmModules = 48;

// What a module adds to its columns of `out`:  low[:, low_begin ..] right, over `rank` columns.
struct LoraGemmModule {
  const void* right =
      nullptr;   // forward: bfloat16 B [num_columns, rank]; backward: A [rank, width]
  int rank = 0;  // forward: a multiple of 8
  int low_begin = 0;
  int begin = 0;
  int num_columns = 0;
};

// forward:  out = left right^T + bias + addend + modules' parts; right [width, depth]
// backward: out = left right + addend + modules' parts; right [depth, width]
//
// Modules are in the order of their adapters. Those of adapter a are first_module[a] up to
// first_module[a + 1]. `low` is zero in rows that are not of a module's adapter, so tiles without
// rows of the adapter leave it out.
//
// fp8:      as forward. left and right are 8-bit floats, two in each element of the depth, and have
//           scales; right is e4m3
//
// Rows of each matrix are contiguous and start at multiples of 16 bytes, `*_stride` elements apart.
// The width is a multiple of 8.
struct LoraGemmArguments {
  const void* left = nullptr;         // bfloat16 [num_rows, depth]
  const void* right = nullptr;        // bfloat16
  const float* left_scale = nullptr;  // with 8-bit floats: factor, on the device
  const float* right_scale = nullptr;
  const void* low = nullptr;     // bfloat16 [num_rows, low_width]
  const void* addend = nullptr;  // bfloat16 [num_rows, width], or null
  const void* bias = nullptr;    // bfloat16 [width], or null
  void* out = nullptr;           // bfloat16 [num_rows, width]
  std::int64_t left_stride = 0;
  std::int64_t right_stride = 0;
  std::int64_t low_stride = 0;
  std::int64_t addend_stride = 0;
  std::int64_t out_stride = 0;
  int num_rows = 0;
  int width = 0;
  int depth = 0;
  int low_width = 0;
  int num_modules = 0;
  LoraGemmModule modules[kMaxLoraGemmModules];
  const std::int32_t* row_begins = nullptr;  // [num_adapters + 1] in GPU memory, or null: one
  int num_adapters = 1;
  int first_module[kMaxLoraGemmModules + 1] = {};  // where row_begins is set
};

// `stream` is a cudaStream_t. Both throw Error(kDevice) when the launch fails.
void launch_lora_gemm_forward(const LoraGemmArguments& arguments, void* stream);
void launch_lora_gemm_backward(const LoraGemmArguments& arguments, void* stream);
// `left`: the format of the left operand.
void launch_lora_fp8_gemm(const LoraGemmArguments& arguments, Fp8Format left, void* stream);

}  // namespace packtrain

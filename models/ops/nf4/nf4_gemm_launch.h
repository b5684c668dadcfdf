#pragma once

#include <cstdint>

namespace packtrain {

// Ranges of a weight [num_rows, num_columns] whose groups of NF4 lie one after another. Each range
// is whole rows.
struct Nf4Weight {
  static constexpr int kMaxRanges = 8;

  const std::uint8_t* groups = nullptr;  // starts at a multiple of 16 bytes
  int num_rows = 0;
  int num_columns = 0;  // a multiple of 64
  int num_ranges = 0;
  int first_row[kMaxRanges + 1] = {};  // of each range, and num_rows
  int first_group[kMaxRanges] = {};
};

// Forward is out = left weight^T + bias + addend. Backward is out = left weight + addend, where the
// weight's rows are a multiple of 64.
//
// Rows of each matrix are contiguous and start at multiples of 16 bytes, `*_stride` elements apart.
struct Nf4GemmArguments {
  Nf4Weight weight;
  const void* left = nullptr;    // bfloat16 [num_rows, columns or rows of the weight]
  const void* addend = nullptr;  // bfloat16 [num_rows, width], or null
  const void* bias = nullptr;    // bfloat16 [width], or null
  void* out = nullptr;           // bfloat16 [num_rows, width]
  std::int64_t left_stride = 0;
  std::int64_t addend_stride = 0;
  std::int64_t out_stride = 0;
  int num_rows = 0;
};

// `stream` is a cudaStream_t. Both throw Error(kDevice) when the launch fails.
void launch_nf4_gemm_forward(const Nf4GemmArguments& arguments, void* stream);
void launch_nf4_gemm_backward(const Nf4GemmArguments& arguments, void* stream);

}  // namespace packtrain

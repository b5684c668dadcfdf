// Constant factors of columns, such as those of the parts of Falcon-H1's projections. Computes in
// float32 and rounds once. Moves twice the elements of the columns whose factor is not 1.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace packtrain {

// A factor of `width` neighbouring columns.
struct ColumnFactor {
  std::int64_t width = 0;
  double factor = 1;
};

inline constexpr std::size_t kMaxColumnFactors = 8;

// Multiplies the columns of rows [T, W], float32 or bfloat16, in place. Widths add up to W. Throws
// Error(kInternal) when they do not, or when there are more than kMaxColumnFactors.
void multiply_columns_(const at::Tensor& rows, const std::vector<ColumnFactor>& factors);

// On CUDA tensors. The function above calls it; no_cuda_mixers.cpp has it in a build without CUDA.
void multiply_columns_cuda_(const at::Tensor& rows, const std::vector<ColumnFactor>& factors);

}  // namespace packtrain

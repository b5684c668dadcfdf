// The inverse T of 1 + L for a strictly lower triangular L of 64 x 64, in float32 in shared memory.
//
// Blocks of 16 x 16 on the diagonal are inverted by substitution. The others follow from
// T (1 + L) = 1, block diagonal after block diagonal:
//    T_ij = -(sum over j < m <= i of T_im L_mj) T_jj
// Each factor of these products is a sum of two bfloat16, whose smallest product is dropped. That
// is an error of some 2^-16.
#pragma once

#include "models/ops/delta_rule/chunk_tiles.cuh"

namespace packtrain::device {

constexpr int kInverseStride = 68;  // floats of a row in shared memory
constexpr int kInverseBytes = kDeltaRows * kInverseStride * 4;

// A float32 as the sum of two bfloat16.
struct SplitPair {
  std::uint32_t high;
  std::uint32_t low;

  __device__ SplitPair() = default;
  __device__ SplitPair(float x, float y) : high(bfloat16_pair(x, y)) {
    low = bfloat16_pair(x - low_bfloat16(high), y - high_bfloat16(high));
  }
};

struct SplitLeft {
  std::uint32_t high[4];
  std::uint32_t low[4];

  __device__ void set(int word, float x, float y) {
    const SplitPair pair(x, y);
    high[word] = pair.high;
    low[word] = pair.low;
  }
};

// sums [16, 16] += left times the 16 x 16 block `right` in shared memory.
__device__ inline void multiply_split(const SplitLeft& left, const float* right,
                                      float (&sums)[2][4]) {
  const int g = delta_lane() / 4;
  const int q = delta_lane() % 4;
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    std::uint32_t high[2];
    std::uint32_t low[2];
#pragma unroll
    for (int word = 0; word < 2; ++word) {
      const float* at = right + (2 * q + 8 * word) * kInverseStride + 8 * t + g;
      const SplitPair pair(at[0], at[kInverseStride]);
      high[word] = pair.high;
      low[word] = pair.low;
    }
    mma_16x8(sums[t], left.low, high);
    mma_16x8(sums[t], left.high, low);
    mma_16x8(sums[t], left.high, high);
  }
}

// One thread for each column of each diagonal block: 64 threads.
__device__ inline void invert_diagonal(const float* lower, float* inverse) {
  const int block = static_cast<int>(threadIdx.x) / 16 * 16;
  const int column = static_cast<int>(threadIdx.x) % 16;
  const float* from = lower + block * kInverseStride + block;
  float t[16];
#pragma unroll
  for (int row = 0; row < 16; ++row) {
    float sum = 0;
#pragma unroll
    for (int m = 0; m < row; ++m) sum = fmaf(from[row * kInverseStride + m], t[m], sum);
    t[row] = row == column ? 1.0F : -sum;
    if (row < column) t[row] = 0;
  }
#pragma unroll
  for (int row = 0; row < 16; ++row) {
    inverse[(block + row) * kInverseStride + block + column] = t[row];
  }
}

// Block (i, j) by one warp.
__device__ inline void invert_block(const float* lower, float* inverse, int i, int j) {
  const int g = delta_lane() / 4;
  const int q = delta_lane() % 4;
  float sums[2][4] = {};
  for (int m = j + 1; m <= i; ++m) {
    SplitLeft left;
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const float* at =
          inverse + (16 * i + g + word % 2 * 8) * kInverseStride + 16 * m + 2 * q + word / 2 * 8;
      left.set(word, at[0], at[1]);
    }
    multiply_split(left, lower + 16 * m * kInverseStride + 16 * j, sums);
  }
  SplitLeft left;
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    left.set(2 * t, -sums[t][0], -sums[t][1]);
    left.set(2 * t + 1, -sums[t][2], -sums[t][3]);
  }
  float product[2][4] = {};
  multiply_split(left, inverse + 16 * j * kInverseStride + 16 * j, product);
#pragma unroll
  for (int t = 0; t < 2; ++t) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      inverse[(16 * i + g + e / 2 * 8) * kInverseStride + 16 * j + 8 * t + 2 * q + e % 2] =
          product[t][e];
    }
  }
}

// All threads of a block call it. Blocks above the diagonal of `inverse` stay as they are.
__device__ inline void invert_unit_lower(const float* lower, float* inverse) {
  if (threadIdx.x < kDeltaRows) invert_diagonal(lower, inverse);
  __syncthreads();
#pragma unroll
  for (int distance = 1; distance < 4; ++distance) {
    if (delta_warp() < 4 - distance) {
      invert_block(lower, inverse, delta_warp() + distance, delta_warp());
    }
    __syncthreads();
  }
}

}  // namespace packtrain::device

// Tiles of a chunk in shared memory, products of them by the warps of a block,
// and rows in global memory. Products of 64 rows have 4 warps along the rows.
// So blocks of 256 threads divide the columns by 2, and those of 512 by 4.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "framework/device/cuda/bfloat16.cuh"
#include "models/ops/cuda/async_copy.cuh"
#include "models/ops/cuda/matrix_fragments.cuh"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/delta_rule/delta_rule_launch.h"

namespace packtrain::device {

constexpr int kDeltaRows = 64;  // of a chunk

__device__ inline int delta_warp() {
  return static_cast<int>(threadIdx.x) / 32;
}
__device__ inline int delta_lane() {
  return static_cast<int>(threadIdx.x) % 32;
}
// First row of this warp in a product of 64 rows, and which part of the columns
// it has.
__device__ inline int warp_row() {
  return delta_warp() % 4 * 16;
}
__device__ inline int warp_part() {
  return delta_warp() / 4;
}

// Inner steps of 16 where this warp's rows of a lower triangle have elements.
__device__ inline int lower_steps() {
  return warp_row() / 16 + 1;
}
// The first of those where its columns have elements, for the transposed
// triangle.
__device__ inline int first_upper_step() {
  return warp_row() / 16;
}

// sums [16, 8 kTiles] += rows m.. of `left` times columns n.. of `right`, over
// inner steps of 16 in [begin, end). A transposed left tile has the inner
// dimension as its rows. A right tile has the product's columns as its rows,
// or, transposed, the inner dimension.
template <class Left, bool kLeftTransposed, class Right, bool kRightTransposed, int kTiles>
__device__ void multiply_tiles(std::uint32_t left, int m, std::uint32_t right, int n, int begin,
                               int end, float (&sums)[kTiles][4]) {
  static_assert(kTiles % 2 == 0, "tiles are loaded by twos");
#pragma unroll
  for (int step = begin; step < end; ++step) {
    std::uint32_t a[4];
    if constexpr (kLeftTransposed) {
      load_transposed(Left::transposed_left(left, 16 * step, m / 8), a);
    } else {
      load_matrices(Left::left(left, m, 2 * step), a);
    }
#pragma unroll
    for (int t = 0; t < kTiles / 2; ++t) {
      std::uint32_t b[4];
      if constexpr (kRightTransposed) {
        load_transposed(Right::transposed_right(right, 16 * step, n / 8 + 2 * t), b);
      } else {
        load_matrices(Right::right(right, n + 16 * t, 2 * step), b);
      }
      mma_16x8(sums[2 * t], a, {b[0], b[1]});
      mma_16x8(sums[2 * t + 1], a, {b[2], b[3]});
    }
  }
}

// Starts copies of `present` rows of `width` elements; the rest of the tile
// gets zeros.
template <class Tile, int kRows, int kThreads>
__device__ void copy_tile(const __nv_bfloat16* from, std::int64_t stride, int present, int width,
                          unsigned char* to) {
  for (int at = static_cast<int>(threadIdx.x); at < kRows * Tile::kChunks; at += kThreads) {
    const int row = at / Tile::kChunks;
    const int chunk = at % Tile::kChunks;
    const bool there = row < present && 8 * chunk < width;
    cp_async(there ? from + row * stride + 8 * chunk : from, to + Tile::place(row, chunk), there);
  }
}

// Where this lane's two elements of row `row` and tile `t` of sums from column
// `n` on are.
template <class Tile>
__device__ std::uint32_t pair_place(int row, int n, int t) {
  return Tile::place(row, n / 8 + t) + static_cast<std::uint32_t>(delta_lane() % 4 * 4);
}
template <class Tile>
__device__ float2 load_pair(const unsigned char* tile, int row, int n, int t) {
  const auto word = *reinterpret_cast<const std::uint32_t*>(tile + pair_place<Tile>(row, n, t));
  return {low_bfloat16(word), high_bfloat16(word)};
}
template <class Tile>
__device__ void store_pair(unsigned char* tile, int row, int n, int t, float x, float y) {
  *reinterpret_cast<std::uint32_t*>(tile + pair_place<Tile>(row, n, t)) = bfloat16_pair(x, y);
}

// Calls work(row, r, half) for this lane's two rows of a warp's 16: sums[.][2
// half + 0 or 1].
template <class Work>
__device__ void for_lane_rows(int m, const Work& work) {
#pragma unroll
  for (int half = 0; half < 2; ++half) work(m + delta_lane() / 4 + 8 * half, half);
}

// Writes sums as bfloat16 to rows m.. and columns n.. of global memory, where
// row < num_rows and column < width. Two lanes exchange words, so that each
// writes four columns that follow.
template <int kTiles>
__device__ void write_sums(const float (&sums)[kTiles][4], int m, int n, __nv_bfloat16* to,
                           std::int64_t stride, int num_rows, int width) {
  static_assert(kTiles % 2 == 0, "tiles are written by twos");
  const bool is_odd = threadIdx.x % 2 == 1;
  const int column = delta_lane() % 4 / 2 * 4 + (is_odd ? 8 : 0);
  for_lane_rows(m, [&](int row, int half) {
#pragma unroll
    for (int t = 0; t < kTiles; t += 2) {
      const std::uint32_t low = bfloat16_pair(sums[t][2 * half], sums[t][2 * half + 1]);
      const std::uint32_t high = bfloat16_pair(sums[t + 1][2 * half], sums[t + 1][2 * half + 1]);
      const std::uint32_t other = __shfl_xor_sync(~0U, is_odd ? low : high, 1);
      const uint2 pair = is_odd ? uint2{other, high} : uint2{low, other};
      const int at = n + 8 * t + column;
      if (row < num_rows && at < width) *reinterpret_cast<uint2*>(to + row * stride + at) = pair;
    }
  });
}

// A chunk of one head: rows, strides and running sums.
struct ChunkHead {
  DeltaRuleChunkRows rows;
  int head;
  const DeltaRuleArguments& a;

  __device__ std::int64_t index(int chunk) const {
    return (std::int64_t{chunk} * a.num_heads + head) * kDeltaRows * kDeltaRows;
  }
  __device__ std::int64_t state(int slot) const {
    return (std::int64_t{slot} * a.num_heads + head) * a.key_dim * a.value_dim;
  }
  __device__ int key_head() const { return head / (a.num_heads / a.num_key_heads); }
  __device__ std::int64_t value_stride() const { return std::int64_t{a.num_heads} * a.value_dim; }
  __device__ std::int64_t w_stride() const { return std::int64_t{a.num_heads} * a.key_dim; }
  __device__ std::int64_t value_offset() const {
    return rows.first_row * value_stride() + std::int64_t{head} * a.value_dim;
  }
  __device__ std::int64_t w_offset() const {
    return rows.first_row * w_stride() + std::int64_t{head} * a.key_dim;
  }
  __device__ const __nv_bfloat16* q() const {
    return static_cast<const __nv_bfloat16*>(a.q) + rows.first_row * a.q_stride +
           key_head() * a.key_dim;
  }
  __device__ const __nv_bfloat16* k() const {
    return static_cast<const __nv_bfloat16*>(a.k) + rows.first_row * a.k_stride +
           key_head() * a.key_dim;
  }
  __device__ const __nv_bfloat16* v() const {
    return static_cast<const __nv_bfloat16*>(a.v) + rows.first_row * a.v_stride +
           std::int64_t{head} * a.value_dim;
  }
  // Returns where row i of the chunk is in [T, H] values.
  __device__ std::int64_t scalar(int i) const {
    return std::int64_t{rows.first_row + i} * a.num_heads + head;
  }
  // The running sum of the last row, for rows after it too.
  __device__ float sum(int i) const { return a.sums[scalar(min(i, rows.num_rows - 1))]; }
};

__device__ inline __nv_bfloat16* elements(void* values) {
  return static_cast<__nv_bfloat16*>(values);
}
__device__ inline const __nv_bfloat16* elements(const void* values) {
  return static_cast<const __nv_bfloat16*>(values);
}

}  // namespace packtrain::device

// Epilogue of grouped_wgrad.cu: from the accumulators of two warp groups to the gradient in memory.
#pragma once

#include <cstdint>

#include "models/ops/cuda/hopper/cooperative.cuh"
#include "models/ops/cuda/hopper/wgmma.cuh"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/experts/grouped_wgrad_launch.h"

namespace packtrain::device {

// A tile of a group's gradient, and the range of rows that it sums over.
struct GradientTile {
  static constexpr int kLeft = 128;  // 64 rows for each warp group
  static constexpr int kRight = 256;

  int group;
  int left;
  int right;
  int begin;
  int end;
  int num_stages;  // An empty group has one stage of zeros. It has none when the gradient is added
                   // to
};

template <typename G>
__device__ G* place_of(const GradientTile& tile, int row, const GroupedWgradArguments& a) {
  const std::int64_t rows = std::int64_t{tile.group} * a.num_left + row;
  return static_cast<G*>(a.target.grad) + rows * a.num_right;
}

// Prefetches to L2 the gradient that the tile is added to, while the tile is computed.
template <typename G>
__device__ void fetch_tile(const GradientTile& tile, const GroupedWgradArguments& a) {
  constexpr int kLine = 128 / sizeof(G);  // elements of a 128-byte line
  constexpr int kLines = GradientTile::kRight / kLine;
  for (int i = threadIdx.x - 128; i < GradientTile::kLeft * kLines; i += kCooperativeThreads) {
    const int row = tile.left + i / kLines;
    const int column = tile.right + i % kLines * kLine;
    if (row < a.num_left && column < a.num_right) {
      prefetch_l2(place_of<G>(tile, row, a) + column);
    }
  }
}

// Two neighbouring threads hold two columns each of eight and of the next eight. The even thread
// takes all four columns of the first eight, the odd thread those of the second.
__device__ inline void shuffle_columns(const float* first, const float* second, float (&four)[4]) {
  const bool odd = threadIdx.x % 2 == 1;
  const float x = __shfl_xor_sync(~0U, odd ? first[0] : second[0], 1);
  const float y = __shfl_xor_sync(~0U, odd ? first[1] : second[1], 1);
  four[0] = odd ? x : first[0];
  four[1] = odd ? y : first[1];
  four[2] = odd ? second[0] : x;
  four[3] = odd ? second[1] : y;
}

// The elements that a thread writes of its warp group's half of a tile: four batches of 8 x 4
// columns. The old values of a batch are read while the batch before it is written. Those of the
// first batch are read while the last wgmma is in flight.
template <typename G>
class FourColumns {
 public:
  __device__ void begin(const GradientTile& tile, const GroupedWgradArguments& a) {
    add_ = a.target.accumulate;
    const int lane = threadIdx.x % 32;
    const int top = tile.left + threadIdx.x / 32 * 16 - 64 + lane / 4;
    const int column = tile.right + lane % 2 * 8 + lane % 4 / 2 * 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = top + i * 8;
      rows_[i] = place_of<G>(tile, row, a) + column;
      num_columns_[i] = row < a.num_left ? a.num_right - column : 0;
    }
    if (add_) read(0, before_[0]);
  }

  __device__ void write(const Accumulator<256>& sums) {
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      if (add_ && b < 3) read(b + 1, before_[(b + 1) % 2]);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const float* const eight = sums.values + (b % 2 * kBatch + i) * 8 + b / 2 * 2;
        float four[4];
        shuffle_columns(eight, eight + 4, four);
        if (add_) {
          float before[4];
          unpack(before_[b % 2][i], before);
#pragma unroll
          for (int c = 0; c < 4; ++c) four[c] += before[c];
        }
        if (is_inside(b, i)) store(four, place(b, i));
      }
    }
  }

 private:
  static constexpr int kBatch = 8;
  static constexpr int kStep = 16;  // columns from one vector to the next

  __device__ static int first_column(int b, int i) { return (b % 2 * kBatch + i) * kStep; }
  __device__ bool is_inside(int b, int i) const { return first_column(b, i) < num_columns_[b / 2]; }
  __device__ G* place(int b, int i) const { return rows_[b / 2] + first_column(b, i); }

  __device__ void read(int b, Vec<G, 4> (&to)[kBatch]) const {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (is_inside(b, i)) to[i] = load_vec<4>(place(b, i));
    }
  }

  bool add_;
  G* rows_[2];
  int num_columns_[2];
  Vec<G, 4> before_[2][kBatch];
};

// For gradients whose rows do not start at multiples of four elements.
template <typename G>
__device__ void store_scalars(const GradientTile& tile, const Accumulator<256>& sums,
                              const GroupedWgradArguments& a) {
  const int lane = threadIdx.x % 32;
  const int top = tile.left + threadIdx.x / 32 * 16 - 64 + lane / 4;
#pragma unroll
  for (int i = 0; i < 128; ++i) {
    const int row = top + i / 2 % 2 * 8;
    const int column = tile.right + i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (row >= a.num_left || column >= a.num_right) continue;
    G* const to = place_of<G>(tile, row, a) + column;
    const float before = a.target.accumulate ? to_float(*to) : 0;
    *to = from_float<G>(before + sums.values[i]);
  }
}

}  // namespace packtrain::device

// What the state space model's kernels on tensor cores share: where the rows of a chunk are, and
// left operands that are computed in registers.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "models/ops/delta_rule/chunk_tiles.cuh"
#include "models/ops/mamba2/tensor_cores/ssd_tensor_cores.h"

namespace packtrain::device {

using SsdSquare = MatrixTile<kSsdStateTile>;
constexpr int kSsdSquareBytes = kSsdStateTile * SsdSquare::kRowBytes;
constexpr int kSsdWarpThreads = 128;  // 4 warps, of 16 rows each

// This thread's first row and its 8 columns in copies of a square by kThreads threads.
template <int kThreads>
struct SquareCopy {
  static constexpr int kRowsOfPass = kThreads / SsdSquare::kChunks;
  static_assert(kRowsOfPass % 8 == 0, "rows of all passes have the same swizzle");
  int row = static_cast<int>(threadIdx.x) / SsdSquare::kChunks;
  int column = static_cast<int>(threadIdx.x) % SsdSquare::kChunks * 8;

  // Starts copies of `present` rows of `width` elements to a square; the rest of it gets zeros.
  __device__ void start(const __nv_bfloat16* from, std::int64_t stride, int present, int width,
                        unsigned char* to) const {
    const __nv_bfloat16* source = from + row * stride + column;
    unsigned char* const target = to + SsdSquare::place(row, column / 8);
    const int last = column < width ? present - row : 0;
#pragma unroll
    for (int pass = 0; pass < kSsdStateTile / kRowsOfPass; ++pass) {
      const bool there = pass * kRowsOfPass < last;
      cp_async(there ? source : from, target + pass * kRowsOfPass * SsdSquare::kRowBytes, there);
      source += kRowsOfPass * stride;
    }
  }
};

// Starts copies of 64 rows and `tiles` times 64 columns, a tile after another.
template <int kThreads>
__device__ void copy_squares(const __nv_bfloat16* from, std::int64_t stride, int present, int width,
                             int tiles, unsigned char* to) {
  const SquareCopy<kThreads> copy;
  for (int tile = 0; tile < tiles; ++tile) {
    copy.start(from + tile * kSsdStateTile, stride, present, width - tile * kSsdStateTile,
               to + tile * kSsdSquareBytes);
  }
}
// Starts copies of `tiles` times 64 rows and of 64 columns.
template <int kThreads>
__device__ void copy_square_rows(const __nv_bfloat16* from, std::int64_t stride, int present,
                                 int width, int tiles, unsigned char* to) {
  const SquareCopy<kThreads> copy;
  for (int tile = 0; tile < tiles; ++tile) {
    copy.start(from + std::int64_t{tile} * kSsdStateTile * stride, stride,
               present - tile * kSsdStateTile, width, to + tile * kSsdSquareBytes);
  }
}

// A chunk of one head.
struct SsdChunkHead {
  const SsdTensorCoreArguments& a;
  DeltaRuleChunkRows rows;
  int head;

  __device__ SsdChunkHead(const SsdTensorCoreArguments& arguments, int chunk, int of_head)
      : SsdChunkHead(arguments, arguments.chunks[chunk], of_head) {}
  __device__ SsdChunkHead(const SsdTensorCoreArguments& arguments, const DeltaRuleChunkRows& of,
                          int of_head)
      : a(arguments), rows(of), head(of_head) {}

  __device__ bool is_first() const { return rows.slot_before < 0; }
  __device__ bool is_last() const { return rows.slot_after < 0; }
  __device__ int group() const { return head / (a.num_heads / a.num_groups); }
  __device__ std::int64_t value_stride() const { return std::int64_t{a.num_heads} * a.head_dim; }

  __device__ const __nv_bfloat16* x() const {
    return elements(a.x) + rows.first_row * a.x_stride + std::int64_t{head} * a.head_dim;
  }
  __device__ const __nv_bfloat16* b() const {
    return elements(a.b) + rows.first_row * a.b_stride + std::int64_t{group()} * a.state_dim;
  }
  __device__ const __nv_bfloat16* c() const {
    return elements(a.c) + rows.first_row * a.c_stride + std::int64_t{group()} * a.state_dim;
  }
  __device__ std::int64_t output_offset() const {
    return rows.first_row * value_stride() + std::int64_t{head} * a.head_dim;
  }
  // Where the head's [N, P] of a slot begin.
  __device__ std::int64_t state_offset(int slot) const {
    return (std::int64_t{slot} * a.num_heads + head) * a.state_dim * a.head_dim;
  }

  // Where the arguments [H, T] have row i of the chunk, or the last row for those after it.
  __device__ std::int64_t value_offset(int i) const {
    return head * a.num_rows + rows.first_row + min(i, rows.num_rows - 1);
  }
  // c_i b_j for a row i and all j, or if `transposed` for a row j and all i. Those of the last row
  // for rows after it.
  __device__ float* scores(int row, bool transposed) const {
    const std::int64_t at =
        std::int64_t{rows.first_row} + min(row, rows.num_rows - 1) + (transposed ? a.num_rows : 0);
    return a.scores + (at * a.num_groups + group()) * kSsdStateTile;
  }
};

// Running sums and steps of a chunk's rows, in shared memory.
struct SsdRowValues {
  float sums[kSsdStateTile];
  float steps[kSsdStateTile];

  // Starts copies. Rows after the last one have its sum, and steps of 0.
  __device__ void copy(const SsdChunkHead& chunk) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread >= 2 * kSsdStateTile) return;
    const int row = thread % kSsdStateTile;
    const std::int64_t at = chunk.value_offset(row);
    if (thread < kSsdStateTile) {
      cp_async_word(chunk.a.head_sums + at, sums + row, true);
    } else {
      cp_async_word(chunk.a.head_steps + at, steps + row, row < chunk.rows.num_rows);
    }
  }
  // exp(a_i - a_j) for rows j <= i, else 0.
  __device__ float ratio(int i, int j) const { return j <= i ? __expf(sums[i] - sums[j]) : 0; }
  __device__ float to_end(int i) const { return __expf(sums[kSsdStateTile - 1] - sums[i]); }
};

// Row `row` [N] of a part of the gradients of b, or of c.
__device__ inline float* grad_part(const SsdTensorCoreArguments& a, bool of_c, int part, int row,
                                   int group) {
  const std::int64_t of_part = (of_c ? 2 * a.head_parts : 0) + part;
  return a.grad_parts + ((of_part * a.num_rows + row) * a.num_groups + group) * a.state_dim;
}

// This lane's row and first column of a word of a left operand, whose rows begin at `m` and columns
// at `k`.
__device__ inline int left_row(int m, int word) {
  return m + delta_lane() / 4 + word % 2 * 8;
}
__device__ inline int left_column(int k, int word) {
  return k + delta_lane() % 4 * 2 + word / 2 * 8;
}

// sums [16, 8 kTiles] += a left operand in registers times rows `inner`.. of a tile, columns n...
template <class Right, int kTiles>
__device__ void multiply_words(const std::uint32_t (&left)[4], std::uint32_t right, int inner,
                               int n, float (&sums)[kTiles][4]) {
  std::uint32_t b[kTiles / 2][4];  // all are loaded before the first product waits for one
#pragma unroll
  for (int t = 0; t < kTiles / 2; ++t) {
    load_transposed(Right::transposed_right(right, inner, n / 8 + 2 * t), b[t]);
  }
#pragma unroll
  for (int t = 0; t < kTiles / 2; ++t) {
    mma_16x8(sums[2 * t], left, {b[t][0], b[t][1]});
    mma_16x8(sums[2 * t + 1], left, {b[t][2], b[t][3]});
  }
}

// c_i b_j of a warp's 16 rows, as a left operand: rows i, or j if `transposed`. All are read before
// the first one is used. Places outside of the triangle j <= i have any number.
template <bool transposed>
struct SsdScores {
  static constexpr int kSteps = kSsdStateTile / 16;
  float2 pairs[kSteps][4] = {};

  __device__ void load(const SsdChunkHead& chunk) {
    const float* const rows[2] = {chunk.scores(left_row(warp_row(), 0), transposed),
                                  chunk.scores(left_row(warp_row(), 1), transposed)};
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      if (!has_step(k)) continue;
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        pairs[k][word] =
            *reinterpret_cast<const float2*>(rows[word % 2] + left_column(16 * k, word));
      }
    }
  }
  // True where the warp's rows of the triangle have elements.
  __device__ static bool has_step(int k) {
    return transposed ? k >= first_upper_step() : k < lower_steps();
  }
};

// Multiplies one of this lane's two rows.
template <int kTiles>
__device__ void scale_row(float (&sums)[kTiles][4], int half, float factor) {
#pragma unroll
  for (auto& tile : sums) {
    tile[2 * half] *= factor;
    tile[2 * half + 1] *= factor;
  }
}

// The sum over the four lanes that share a row.
__device__ inline float quad_sum(float value) {
  value += __shfl_xor_sync(~0U, value, 1);
  return value + __shfl_xor_sync(~0U, value, 2);
}

__device__ inline std::uint32_t shared_address(const unsigned char* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

}  // namespace packtrain::device

// Rows of one sequence in shared memory, and their products, for heads of 512 elements.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "framework/device/cuda/check.h"
#include "models/ops/attention/wide/launch.h"
#include "models/ops/cuda/async_copy.cuh"
#include "models/ops/cuda/matrix_fragments.cuh"
#include "models/ops/cuda/power_of_2.cuh"
#include "models/ops/cuda/vector.cuh"

namespace packtrain::device {

constexpr int kWideWarps = 8;
constexpr int kWideThreads = 32 * kWideWarps;

using WideElement = __nv_bfloat16;
using WideRows = MatrixTile<kWideHeadDim>;

// Rows [first, first + count) of a tensor, and one head of them.
struct WideSource {
  const WideElement* data = nullptr;  // the head's elements of row `first`
  std::int64_t stride = 0;
  int count = 0;
};

__device__ inline WideSource wide_source(const void* tensor, int first_row, std::int64_t stride,
                                         int head, int count) {
  return {static_cast<const WideElement*>(tensor) + first_row * stride + head * kWideHeadDim,
          stride, count};
}

// The part of a sequence that a block of threads has: `tile` of its queries or of its keys.
struct WideTile {
  int first_query = 0;  // row of the batch
  int num_queries = 0;
  int first_key = 0;
  int num_keys = 0;
  int tile = 0;

  // Query i of the sequence is key i + before().
  __device__ int before() const { return num_keys - num_queries; }
};

// Tile number `block` when each sequence has as many as its rows need, or one more. A tile may thus
// be empty. Sequence s has the tiles from bounds[s] / rows + s on.
__device__ inline WideTile find_tile(const WideAttentionArguments& a, const std::int32_t* bounds,
                                     int rows, int block) {
  int low = 0;
  int high = a.num_sequences;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (bounds[middle] / rows + middle <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  WideTile found;
  found.first_query = a.cu_queries[low];
  found.num_queries = a.cu_queries[low + 1] - found.first_query;
  found.first_key = a.cu_keys[low];
  found.num_keys = a.cu_keys[low + 1] - found.first_key;
  found.tile = block - (bounds[low] / rows + low);
  return found;
}
// An upper bound of the tiles of all sequences.
inline unsigned num_wide_tiles(std::int64_t num_rows, int num_sequences, int rows) {
  return static_cast<unsigned>(num_rows / rows + num_sequences);
}

__device__ inline int wide_warp() {
  return static_cast<int>(threadIdx.x) / 32;
}
__device__ inline int wide_lane() {
  return static_cast<int>(threadIdx.x) % 32;
}

// True where the query `distance` keys after a key sees it.
__device__ inline bool sees_key(const WideAttentionArguments& a, int distance) {
  return distance >= 0 && (a.window == 0 || distance < a.window);
}
// The weight of a key from its score, before the scale. `statistic`: the logsumexp over log(2).
__device__ inline float wide_weight(const WideAttentionArguments& a, float score, int distance,
                                    float statistic) {
  return sees_key(a, distance) ? power_of_2(score * a.scale * kLog2E - statistic) : 0;
}

// Starts copies of `kRows` rows from row `begin` on. Rows after the last are zeros.
template <int kRows>
__device__ void load_wide_rows(const WideSource& from, int begin, unsigned char* to) {
  const WideElement* rows = from.data + begin * from.stride;
#pragma unroll 4
  for (int i = 0; i < kRows * WideRows::kChunks / kWideThreads; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * kWideThreads;
    const int row = at / WideRows::kChunks;
    const int chunk = at % WideRows::kChunks;
    const bool present = begin + row < from.count;
    cp_async(present ? rows + row * from.stride + chunk * 8 : from.data,
             to + WideRows::place(row, chunk), present);
  }
}

// The operands of a step of multiply_wide_rows().
template <int kLeft, int kRight>
struct WideStep {
  std::uint32_t left[kLeft][4];
  std::uint32_t right[kRight][4];

  __device__ void load(std::uint32_t lefts, int left_row, std::uint32_t rights, int right_row,
                       int step) {
#pragma unroll
    for (int i = 0; i < kLeft; ++i) {
      load_matrices(WideRows::left(lefts, left_row + 16 * i, 2 * step), left[i]);
    }
#pragma unroll
    for (int n = 0; n < kRight; ++n) {
      load_matrices(WideRows::right(rights, right_row + 16 * n, 2 * step), right[n]);
    }
  }
};

// sums (16 kLeft x 16 kRight) += rows of `left` times rows of `right`, over the 512 elements. A
// step loads the operands of the next one before its products, because two warps a scheduler do not
// hide the latency of shared memory.
template <int kLeft, int kRight>
__device__ void multiply_wide_rows(std::uint32_t left, int left_row, std::uint32_t right,
                                   int right_row, float (&sums)[kLeft][2 * kRight][4]) {
  constexpr int kSteps = kWideHeadDim / 16;
  WideStep<kLeft, kRight> steps[2];
  steps[0].load(left, left_row, right, right_row, 0);
#pragma unroll 4
  for (int k = 0; k < kSteps; ++k) {
    if (k + 1 < kSteps) steps[(k + 1) % 2].load(left, left_row, right, right_row, k + 1);
    const WideStep<kLeft, kRight>& step = steps[k % 2];
#pragma unroll
    for (int n = 0; n < kRight; ++n) {
#pragma unroll
      for (int i = 0; i < kLeft; ++i) {
        mma_16x8(sums[i][2 * n], step.left[i], {step.right[n][0], step.right[n][1]});
        mma_16x8(sums[i][2 * n + 1], step.left[i], {step.right[n][2], step.right[n][3]});
      }
    }
  }
}

// sums (32 x 8 kTiles) += `weights` times 16 rows of `rows`, from `first_row` on. Of the weights it
// takes 32 rows from `row` on and 16 columns from 8 chunk on, of the rows columns from 8
// column_chunk on.
template <typename Weights, int kTiles>
__device__ void add_wide_rows(std::uint32_t weights, int row, int chunk, std::uint32_t rows,
                              int first_row, int column_chunk, float (&sums)[2][kTiles][4]) {
  static_assert(kTiles % 2 == 0, "columns are read by 16");
  constexpr int kPairs = kTiles / 2;
  std::uint32_t a[2][4];
  std::uint32_t b[2][4];
  load_matrices(Weights::left(weights, row, chunk), a[0]);
  load_matrices(Weights::left(weights, row + 16, chunk), a[1]);
  load_transposed(WideRows::transposed_right(rows, first_row, column_chunk), b[0]);
#pragma unroll
  for (int n = 0; n < kPairs; ++n) {
    if (n + 1 < kPairs) {
      load_transposed(WideRows::transposed_right(rows, first_row, column_chunk + 2 * n + 2),
                      b[(n + 1) % 2]);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      mma_16x8(sums[i][2 * n], a[i], {b[n % 2][0], b[n % 2][1]});
      mma_16x8(sums[i][2 * n + 1], a[i], {b[n % 2][2], b[n % 2][3]});
    }
  }
}

// Writes factor[half] times 16 rows of sums, of which `present` are there. factor is that of this
// lane's row lane / 4 + 8 half.
template <int kTiles>
__device__ void write_wide_rows(const float (&sums)[kTiles][4], const float (&factor)[2],
                                WideElement* to, std::int64_t stride, int present) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = wide_lane() / 4 + 8 * half;
    if (row >= present) continue;
    WideElement* columns = to + row * stride + wide_lane() % 4 * 2;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      *reinterpret_cast<std::uint32_t*>(columns + 8 * n) =
          bfloat16_pair(factor[half] * sums[n][2 * half], factor[half] * sums[n][2 * half + 1]);
    }
  }
}

// `Work` has one tile of rows of one head.
template <typename Work>
__global__ void __launch_bounds__(kWideThreads, 1)
    wide_kernel(const __grid_constant__ WideAttentionArguments arguments) {
  extern __shared__ __align__(1024) unsigned char shared[];
  Work(arguments, shared).run();
}

// A block of threads for each tile of Work::kTileRows of `num_rows` rows, and each of `num_heads`.
template <typename Work>
void launch_wide(const WideAttentionArguments& arguments, std::int64_t num_rows, int num_heads,
                 void* stream) {
  const auto kernel = wide_kernel<Work>;
  PACKTRAIN_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            Work::kSharedBytes));
  const dim3 grid(num_wide_tiles(num_rows, arguments.num_sequences, Work::kTileRows),
                  static_cast<unsigned>(num_heads));
  kernel<<<grid, kWideThreads, Work::kSharedBytes, static_cast<cudaStream_t>(stream)>>>(arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain::device

// Partial sums of columns: one row of them for each range of rows (split rows). column_sums.cu adds
// them in order.
#pragma once

#include <cstdint>

#include "models/ops/cuda/vector.cuh"

namespace packtrain {

// Sums [num_splits, num_columns] of a matrix [num_rows, num_columns].
struct ColumnPartials {
  float* sums = nullptr;
  std::int64_t num_rows = 0;
  std::int64_t num_columns = 0;
  std::int64_t num_splits = 0;
};

namespace device {

constexpr int kPartialWarps = 8;
constexpr int kLoadsInFlight = 4;

// The first column of the calling thread, which has N.
template <int N>
__device__ std::int64_t first_column() {
  return (std::int64_t{blockIdx.x} * 32 + threadIdx.x % 32) * N;
}

// Block (i, j) sums range j of the rows over columns 32 N i and following. Each warp takes every
// eighth row. `source.load(row, loaded)` reads the thread's columns of a row, and
// `source.add(row, loaded, sum)` adds N values of them. Both are called in columns that exist
// alone.
template <int N, class Source>
__device__ void sum_columns(const ColumnPartials& a, const Source& source) {
  __shared__ float sums[kPartialWarps][32 * N];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const std::int64_t rows = (a.num_rows + a.num_splits - 1) / a.num_splits;
  const std::int64_t begin = blockIdx.y * rows;
  const std::int64_t end = begin + rows < a.num_rows ? begin + rows : a.num_rows;
  float sum[N] = {};
  if (first_column<N>() < a.num_columns) {
    for (std::int64_t row = begin + warp; row < end; row += kPartialWarps * kLoadsInFlight) {
      typename Source::Loaded loaded[kLoadsInFlight] = {};
#pragma unroll
      for (int u = 0; u < kLoadsInFlight; ++u) {
        const std::int64_t here = row + u * kPartialWarps;
        if (here < end) source.load(here, loaded[u]);
      }
#pragma unroll
      for (int u = 0; u < kLoadsInFlight; ++u) {
        const std::int64_t here = row + u * kPartialWarps;
        if (here < end) source.add(here, loaded[u], sum);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) sums[warp][i * 32 + lane] = sum[i];
  __syncthreads();
  for (int c = threadIdx.x; c < 32 * N; c += blockDim.x) {
    float total = 0;
#pragma unroll
    for (int w = 0; w < kPartialWarps; ++w) total += sums[w][c];
    const std::int64_t to = (std::int64_t{blockIdx.x} * 32 + c % 32) * N + c / 32;
    if (to < a.num_columns) a.sums[blockIdx.y * a.num_columns + to] = total;
  }
}

}  // namespace device

template <int N>
dim3 column_partials_grid(const ColumnPartials& a) {
  return {static_cast<unsigned>((a.num_columns + 32 * N - 1) / (32 * N)),
          static_cast<unsigned>(a.num_splits)};
}

}  // namespace packtrain

// Backward of the normalisation of rows; threads hold rows as in row_norm.cuh. A block goes over
// many rows, so that each thread sums dw and db of its columns in registers.
#pragma once

#include "models/ops/cuda/row_norm.cuh"

namespace packtrain::device {

// A thread's sums over rows, [0] of g n (dw), [1] of g (db; LayerNorm only).
template <int N, int V, int K>
using ColumnSums = float[K][V][N];

// Adds this row to the sums of columns; returns the row's means of g w n and (LayerNorm) of g w,
// n = (x - mean) inverse.
template <typename T, int N, int V, int K>
__device__ void project(const NormArguments& a, const Run<T, N> (&grad)[V], const Run<T, N> (&x)[V],
                        const T* weight, const Share<N>& share, const RowStatistics& row,
                        RowSums<false>& row_sums, ColumnSums<N, V, K>& columns, float (&means)[K]) {
#pragma unroll
  for (int k = 0; k < K; ++k) means[k] = 0;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    float g[N];
    float values[N];
    float w[N];
    if (!share.holds(v)) continue;
    unpack(grad[v], g);
    unpack(x[v], values);
    load(weight + share.column(v), w);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float gn = g[i] * ((values[i] - row.mean) * row.inverse);
      columns[0][v][i] += gn;
      means[0] += gn * (w[i] + a.weight_offset);
      if constexpr (K == 2) {
        columns[1][v][i] += g[i];
        means[1] += g[i] * (w[i] + a.weight_offset);
      }
    }
  }
  row_sums.sum(means);
#pragma unroll
  for (int k = 0; k < K; ++k) means[k] /= static_cast<float>(a.hidden);
}

// dx = inverse (g w - mean(g w) - n mean(g w n)) + residual
template <typename T, int N, int V, int K>
__device__ void write_dx(const NormArguments& a, const Run<T, N> (&grad)[V],
                         const Run<T, N> (&x)[V], const T* weight, const Run<T, N> (&residual)[V],
                         const RowStatistics& row, const float (&means)[K], const Share<N>& share,
                         T* dx) {
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (!share.holds(v)) continue;
    float g[N];
    float values[N];
    float w[N];
    float added[N];
    unpack(grad[v], g);
    unpack(x[v], values);
    load(weight + share.column(v), w);
    unpack(residual[v], added);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float n = (values[i] - row.mean) * row.inverse;
      float slope = g[i] * (w[i] + a.weight_offset) - n * means[0];
      if constexpr (K == 2) slope -= means[1];
      values[i] = row.inverse * slope + added[i];
    }
    store(values, dx + share.column(v));
  }
}

// Adds the sums of the block's rows of threads up, in order, and writes them to `out` [hidden].
// `shared` has room for `hidden` of them.
template <int N, int V>
__device__ void write_sums(float (&sums)[V][N], const Share<N>& share, float* shared, float* out) {
  for (int offset = blockDim.x; offset < 32; offset *= 2) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
#pragma unroll
      for (int i = 0; i < N; ++i) sums[v][i] += __shfl_xor_sync(~0U, sums[v][i], offset);
    }
  }
  const int rows_a_warp = blockDim.x < 32 ? 32 / blockDim.x : 1;
  const int num_units = blockDim.y / rows_a_warp;
  for (int unit = 0; unit < num_units; ++unit) {
    if (threadIdx.y == unit * rows_a_warp) {
      float* to = unit + 1 == num_units ? out : shared;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if (!share.holds(v)) continue;
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float before = unit == 0 ? 0.0F : shared[share.column(v) + i];
          to[share.column(v) + i] = before + sums[v][i];
        }
      }
    }
    __syncthreads();
  }
}

template <typename T, int N>
__device__ void copy_weight(const NormArguments& a, T* to) {
  const int num_threads = blockDim.x * blockDim.y;
  const int first = threadIdx.y * blockDim.x + threadIdx.x;
  for (int c = first * N; c < a.hidden; c += num_threads * N) {
    write_run(read_run<N>(static_cast<const T*>(a.weight) + c), to + c);
  }
  __syncthreads();
}

template <typename T, int N, int V, bool kCentered>
__global__ void __launch_bounds__(kNormMostThreads) norm_backward_kernel(const NormArguments a) {
  extern __shared__ __align__(16) float shared[];
  constexpr int kSums = kCentered ? 2 : 1;
  const int hidden = static_cast<int>(a.hidden);
  ColumnSums<N, V, kSums> columns = {};
  // The weights, for lack of registers; later the sums.
  T* weight = reinterpret_cast<T*>(shared);
  copy_weight<T, N>(a, weight);
  RowSums</*kOneRow=*/false> row_sums;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.y;
  for (std::int64_t first = std::int64_t{blockIdx.x} * blockDim.y; first < a.num_rows;
       first += stride) {
    const std::int64_t row = first + threadIdx.y;
    const std::int64_t offset = row * a.hidden;
    const Share<N> share{hidden, row < a.num_rows};
    Run<T, N> grad[V];
    Run<T, N> x[V];
    Run<T, N> residual[V] = {};
    read_row(a.grad_output, offset, share, grad);
    read_row(a.x, offset, share, x);
    if (a.residual != nullptr) read_row(a.residual, offset, share, residual);
    RowStatistics statistics{0, share.present ? a.inverse[row] : 0};
    if constexpr (kCentered) statistics.mean = share.present ? a.mean[row] : 0;
    float means[kSums];
    project(a, grad, x, weight, share, statistics, row_sums, columns, means);
    forget_unpacked(grad);
    forget_unpacked(x);
    write_dx(a, grad, x, weight, residual, statistics, means, share,
             static_cast<T*>(a.output) + offset);
    if (a.remade_y != nullptr) {
      forget_unpacked(x);
      write_output(a, x, weight, statistics, share, static_cast<T*>(a.remade_y) + offset);
    }
  }
  if (a.partials == nullptr) return;
  __syncthreads();
  float* out = a.partials + std::int64_t{blockIdx.x} * kSums * a.hidden;
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
    write_sums(columns[k], Share<N>{hidden, true}, shared, out + k * a.hidden);
  }
}

}  // namespace packtrain::device

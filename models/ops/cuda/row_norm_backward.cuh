// Backward of norms over rows held in registers (row_copies.cuh). A block walks over many rows, so
// that each thread sums dw and db of its columns in registers. After memory, the number of
// instructions for each element limits the kernel. Weights therefore stay unpacked, addresses
// advance, and options are template arguments.
#pragma once

#include "models/ops/cuda/dependent_launch.cuh"
#include "models/ops/cuda/row_copies.cuh"
#include "models/ops/cuda/row_norm.cuh"
#include "models/ops/cuda/row_reduction.cuh"

namespace packtrain::device {

// Tensors that backward reads row by row.
enum BackwardInput { kGrad, kX, kResidualGrad };
template <typename T, int N, int V, bool kResidual>
using BackwardRow = RegisterRow<T, N, V, kResidual ? 3 : 2>;
// One stage fewer with a residual, so that about as many bytes are in flight.
template <typename T, int N, int V, bool kResidual>
using BackwardCopies = RowCopies<T, N, V, kResidual ? 3 : 2, kResidual ? 1 : 2>;

// A thread's sums over rows: [0] of g n (dw), [1] of g (db, LayerNorm only), where n = (x - mean)
// inverse.
template <int N, int V, int K>
using ColumnSums = float[K][V][N];

// Adds a row to the column sums. `means` receives this thread's part of the sums of g w (x - mean)
// and (LayerNorm) of g w.
template <typename Row, int N, int V, int K>
__device__ void project(const Row& row, const RowStatistics& statistics,
                        const float (&weight)[V][N], ColumnSums<N, V, K>& columns,
                        float (&means)[K]) {
#pragma unroll
  for (int k = 0; k < K; ++k) means[k] = 0;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    float g[N];
    float x[N];
    unpack(row.runs[kGrad][v], g);
    unpack(row.runs[kX][v], x);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (K == 2) {
        x[i] -= statistics.mean;
        columns[1][v][i] += g[i];
        means[1] += g[i] * weight[v][i];
      }
      const float gx = g[i] * x[i];
      columns[0][v][i] += gx * statistics.inverse;
      means[0] += gx * weight[v][i];
    }
  }
}

// dx = inverse (g w - mean(g w) - n mean(g w n)) + residual. `sums` are those of project(), summed
// over the row.
template <typename T, int N, int V, bool kResidual, int K>
__device__ void write_row(const NormArguments& a, const WarpShare<N, V>& share,
                          const BackwardRow<T, N, V, kResidual>& row,
                          const RowStatistics& statistics, const float (&weight)[V][N],
                          const float (&sums)[K], float inverse_count) {
  const auto [mean, inverse] = statistics;
  const float slope = sums[0] * inverse_count * inverse * inverse;
  const float shift = sums[K - 1] * inverse_count;
  T* to = static_cast<T*>(a.output) + row.offset;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    float g[N];
    float x[N];
    unpack(row.runs[kGrad][v], g);
    unpack(row.runs[kX][v], x);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      g[i] *= weight[v][i];
      if constexpr (K == 2) {
        g[i] -= shift;
        x[i] -= mean;
      }
      g[i] = (g[i] - x[i] * slope) * inverse;
    }
    if constexpr (kResidual) {
      unpack(row.runs[kResidualGrad][v], x);
#pragma unroll
      for (int i = 0; i < N; ++i) g[i] += x[i];
    }
    if (share.held[v]) store(g, to + v * share.kStep);
  }
}

template <typename T, int N, int V, bool kResidual>
__device__ void write_recomputed_output(const NormArguments& a, const WarpShare<N, V>& share,
                                        const BackwardRow<T, N, V, kResidual>& row,
                                        const RowStatistics& statistics,
                                        const float (&weight)[V][N]) {
  T* to = static_cast<T*>(a.recomputed_output) + row.offset;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (!share.held[v]) continue;
    float x[N];
    float b[N] = {};
    unpack(row.runs[kX][v], x);
    if (a.bias != nullptr) load(static_cast<const T*>(a.bias) + share.column + v * share.kStep, b);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      x[i] = (x[i] - statistics.mean) * statistics.inverse * weight[v][i] + b[i];
    }
    store(x, to + v * share.kStep);
  }
}

// Sums over the block's blockDim.y rows of threads in a fixed order and writes `out` [hidden].
// `shared` holds hidden floats for each row of threads.
template <int N, int V>
__device__ void write_sums(const float (&sums)[V][N], const WarpShare<N, V>& share, int hidden,
                           float* shared, float* out) {
  constexpr int kFour = 4;
  __syncthreads();  // the rows in flight have been read; shared memory is reused
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (!share.held[v]) continue;
    store(sums[v], shared + threadIdx.y * hidden + share.column + v * share.kStep);
  }
  __syncthreads();
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (int c = thread * kFour; c < hidden; c += blockDim.x * blockDim.y * kFour) {
    float sum[kFour];
    load(shared + c, sum);
    for (int row = 1; row < blockDim.y; ++row) {
      float more[kFour];
      load(shared + row * hidden + c, more);
#pragma unroll
      for (int i = 0; i < kFour; ++i) sum[i] += more[i];
    }
    store(sum, out + c);
  }
}

template <typename T, int N, int V>
__device__ void read_weight(const NormArguments& a, const WarpShare<N, V>& share,
                            float (&weight)[V][N]) {
#pragma unroll
  for (int v = 0; v < V; ++v) {
    Vec<T, N> run{};
    if (share.held[v]) {
      run = load_vec<N>(static_cast<const T*>(a.weight) + share.column + v * share.kStep);
    }
    unpack(run, weight[v]);
#pragma unroll
    for (int i = 0; i < N; ++i) weight[v][i] += a.weight_offset;
  }
}

template <bool kCentered>
__device__ RowStatistics read_statistics(const NormArguments& a, std::int64_t row) {
  if (row >= a.num_rows) return {};
  return {kCentered ? a.mean[row] : 0, a.inverse[row]};
}

// Dynamic shared memory holds the rows in flight, and then the column sums.
template <typename T, int N, int V, bool kCentered, bool kResidual>
__global__ void __launch_bounds__(kRowThreads, 1) norm_backward_kernel(const NormArguments a) {
  extern __shared__ __align__(16) unsigned char shared[];
  constexpr int kSums = kCentered ? 2 : 1;
  __shared__ __align__(16) typename RowReduction<kSums>::Places places;
  grid_dependency_synchronize();
  const WarpShare<N, V> share(a.hidden);
  const void* const tensors[3] = {a.grad_output, a.x, a.residual};
  BackwardCopies<T, N, V, kResidual> copies(tensors, {a.num_rows, a.row_stride}, share, shared);
  RowStatistics next = read_statistics<kCentered>(a, copies.next_row());
  float weight[V][N];
  read_weight<T>(a, share, weight);
  RowReduction<kSums> totals(places);
  const float inverse_count = 1.0F / static_cast<float>(a.hidden);
  ColumnSums<N, V, kSums> columns = {};
  while (copies.has_row()) {
    const BackwardRow<T, N, V, kResidual> row = copies.take();
    const RowStatistics statistics = next;
    next = read_statistics<kCentered>(a, copies.next_row());
    float sums[kSums];
    project(row, statistics, weight, columns, sums);
    totals.sum(sums);
    write_row<T, N, V, kResidual>(a, share, row, statistics, weight, sums, inverse_count);
    if (a.recomputed_output == nullptr) continue;
    write_recomputed_output<T, N, V, kResidual>(a, share, row, statistics, weight);
  }
  cp_async_wait_group<0>();
  // The kernel that sums the partials may start now. It waits for these writes itself.
  trigger_programmatic_launch();
  if (a.partials == nullptr) return;
  float* out = a.partials + std::int64_t{blockIdx.x} * kSums * a.hidden;
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
    write_sums(columns[k], share, static_cast<int>(a.hidden), reinterpret_cast<float*>(shared),
               out + k * a.hidden);
  }
}

}  // namespace packtrain::device

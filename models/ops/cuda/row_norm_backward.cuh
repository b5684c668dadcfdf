// Backward of the normalisation of rows. A block goes over many rows, so that each thread sums dw
// and db of its columns in registers; the rows themselves, held as in row_norm.cuh, lie in shared
// memory, where copies of the next row arrive while this one is worked on.
#pragma once

#include "models/ops/cuda/async_copy.cuh"
#include "models/ops/cuda/kernel_chain.cuh"
#include "models/ops/cuda/row_norm.cuh"

namespace packtrain::device {

constexpr int kNormStages = 2;  // rows of a thread under way

// The runs of a thread's rows. Each thread copies and reads its own alone, so no barrier is needed.
template <typename T, int N, int V>
class RowRing {
 public:
  enum Input { kGrad, kX, kResidual };

  __device__ RowRing(const NormArguments& a, void* shared)
      : a_(a), runs_(static_cast<Run<T, N>*>(shared)) {}

  // Asks for a row; zeros where nothing is held. One group of copies.
  __device__ void ask(std::int64_t row, const Share<N>& share, int stage) {
    const std::int64_t offset = share.present ? row * a_.hidden : 0;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const bool held = share.holds(v);
      const std::int64_t from = offset + (held ? share.column(v) : 0);
      copy_async(static_cast<const T*>(a_.grad_output) + from, place(stage, kGrad, v), held);
      copy_async(static_cast<const T*>(a_.x) + from, place(stage, kX, v), held);
      if (a_.residual == nullptr) continue;
      copy_async(static_cast<const T*>(a_.residual) + from, place(stage, kResidual, v), held);
    }
    commit_copies();
  }
  __device__ void read(int stage, Input input, int v, float (&to)[N]) const {
    unpack(*place(stage, input, v), to);
  }

 private:
  __device__ Run<T, N>* place(int stage, Input input, int v) const {
    const int num_inputs = a_.residual == nullptr ? 2 : 3;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    return runs_ + ((stage * num_inputs + input) * V + v) * blockDim.x * blockDim.y + thread;
  }

  const NormArguments& a_;
  Run<T, N>* runs_;
};

// A thread's sums over rows, [0] of g n (dw), [1] of g (db; LayerNorm only).
template <int N, int V, int K>
using ColumnSums = float[K][V][N];

// Adds a row to the sums of columns; returns the row's means of g w n and (LayerNorm) of g w,
// n = (x - mean) inverse.
template <typename T, int N, int V, int K>
__device__ void project(const NormArguments& a, const RowRing<T, N, V>& ring, int stage,
                        const T* weight, const Share<N>& share, const RowStatistics& row,
                        RowSums<false>& row_sums, ColumnSums<N, V, K>& columns, float (&means)[K]) {
#pragma unroll
  for (int k = 0; k < K; ++k) means[k] = 0;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (!share.holds(v)) continue;
    float g[N];
    float x[N];
    float w[N];
    ring.read(stage, ring.kGrad, v, g);
    ring.read(stage, ring.kX, v, x);
    load(weight + share.column(v), w);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float gn = g[i] * ((x[i] - row.mean) * row.inverse);
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

// dx = inverse (g w - mean(g w) - n mean(g w n)) + residual, and y if it is to be made again
template <typename T, int N, int V, int K>
__device__ void write_row(const NormArguments& a, const RowRing<T, N, V>& ring, int stage,
                          const T* weight, const RowStatistics& row, const float (&means)[K],
                          const Share<N>& share, std::int64_t offset) {
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (!share.holds(v)) continue;
    float g[N];
    float x[N];
    float w[N];
    float added[N] = {};
    ring.read(stage, ring.kGrad, v, g);
    ring.read(stage, ring.kX, v, x);
    load(weight + share.column(v), w);
    if (a.residual != nullptr) ring.read(stage, ring.kResidual, v, added);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      x[i] = (x[i] - row.mean) * row.inverse;
      w[i] += a.weight_offset;
      float slope = g[i] * w[i] - x[i] * means[0];
      if constexpr (K == 2) slope -= means[1];
      g[i] = row.inverse * slope + added[i];
    }
    store(g, static_cast<T*>(a.output) + offset + share.column(v));
    if (a.remade_y == nullptr) continue;
    float b[N] = {};
    if (a.bias != nullptr) load(static_cast<const T*>(a.bias) + share.column(v), b);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = x[i] * w[i] + b[i];
    store(x, static_cast<T*>(a.remade_y) + offset + share.column(v));
  }
}

// Adds the sums of the block's rows of threads up, in order, and writes them to `out` [hidden].
// `shared` has room for V N (threads + 4) of them: the pitch puts a warp's accesses on banks of
// their own, whether it goes along threads or along columns.
template <int N, int V>
__device__ void write_sums(float (&sums)[V][N], std::int64_t hidden, float* shared, float* out) {
  const int num_threads = blockDim.x * blockDim.y;
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  const int pitch = num_threads + 4;
  const int rows_a_warp = blockDim.x < 32 ? 32 / blockDim.x : 1;
  const int num_units = blockDim.y / rows_a_warp;
  __syncthreads();  // what lay in shared memory is no longer read
#pragma unroll
  for (int v = 0; v < V; ++v) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      for (int offset = blockDim.x; offset < 32; offset *= 2) {
        sums[v][i] += __shfl_xor_sync(~0U, sums[v][i], offset);
      }
      if (threadIdx.y % rows_a_warp == 0) {
        const int place = threadIdx.y / rows_a_warp * blockDim.x + threadIdx.x;
        shared[(v * N + i) * pitch + place] = sums[v][i];
      }
    }
  }
  __syncthreads();
  for (int c = thread; c < hidden; c += num_threads) {
    const int run = c / N;
    const int v = run / blockDim.x;
    const float* from = shared + (v * N + c % N) * pitch + run - v * blockDim.x;
    float sum = 0;
    for (int unit = 0; unit < num_units; ++unit) sum += from[unit * blockDim.x];
    out[c] = sum;
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

template <bool kCentered>
__device__ RowStatistics read_statistics(const NormArguments& a, std::int64_t row) {
  if (row >= a.num_rows) return {};
  return {kCentered ? a.mean[row] : 0, a.inverse[row]};
}

// Shared memory: the row of weights, then the ring, later the sums.
template <typename T, int N, int V, bool kCentered>
__global__ void __launch_bounds__(kNormMostThreads) norm_backward_kernel(const NormArguments a) {
  extern __shared__ __align__(16) unsigned char shared[];
  constexpr int kSums = kCentered ? 2 : 1;
  const int hidden = static_cast<int>(a.hidden);
  T* weight = reinterpret_cast<T*>(shared);
  RowRing<T, N, V> ring(a, weight + hidden);
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.y;
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  for (int stage = 0; stage < kNormStages; ++stage) {
    const std::int64_t row = first + stage * stride;
    ring.ask(row, Share<N>{hidden, row < a.num_rows}, stage);
  }
  RowStatistics next = read_statistics<kCentered>(a, first);
  copy_weight<T, N>(a, weight);
  ColumnSums<N, V, kSums> columns = {};
  RowSums</*kOneRow=*/false> row_sums;
  int stage = 0;
  // All rows of the block come round together: barriers and shuffles need every thread.
  for (std::int64_t row = first; row - threadIdx.y < a.num_rows; row += stride) {
    const Share<N> share{hidden, row < a.num_rows};
    const RowStatistics statistics = next;
    next = read_statistics<kCentered>(a, row + stride);
    wait_for_copies<kNormStages - 1>();
    float means[kSums];
    project(a, ring, stage, weight, share, statistics, row_sums, columns, means);
    write_row(a, ring, stage, weight, statistics, means, share, row * a.hidden);
    const std::int64_t coming = row + kNormStages * stride;
    ring.ask(coming, Share<N>{hidden, coming < a.num_rows}, stage);
    stage = (stage + 1) % kNormStages;
  }
  wait_for_copies<0>();
  allow_next_kernel();
  if (a.partials == nullptr) return;
  float* out = a.partials + std::int64_t{blockIdx.x} * kSums * a.hidden;
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
    write_sums(columns[k], a.hidden, reinterpret_cast<float*>(shared), out + k * a.hidden);
  }
}

}  // namespace packtrain::device

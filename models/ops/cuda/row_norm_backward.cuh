// Backward of the normalisation of rows. Whole warps hold a row in registers, V runs of 16 bytes a
// thread; blockDim.y rows are under way in a block, and a block goes over many, so that each thread
// sums dw and db of its columns in registers. What bounds the kernel beside memory is the
// instructions an element takes: weights stay unpacked, addresses advance, and what a launch knows
// of the operands is known to the compiler.
#pragma once

#include "models/ops/cuda/async_copy.cuh"
#include "models/ops/cuda/kernel_chain.cuh"
#include "models/ops/cuda/row_norm.cuh"
#include "models/ops/cuda/row_totals.cuh"

namespace packtrain::device {

// The runs of a row that a thread has: a warp's lie side by side, kStep elements apart a thread's.
template <int N, int V>
struct WarpShare {
  static constexpr int kStep = 32 * N;
  int column;  // of the first run
  bool held[V];

  __device__ explicit WarpShare(std::int64_t hidden)
      : column(static_cast<int>(threadIdx.x / 32 * 32 * V + threadIdx.x % 32) * N) {
#pragma unroll
    for (int v = 0; v < V; ++v) held[v] = column + v * kStep < hidden;
  }
};

// What backward reads of a row. Runs not held are 0.
template <typename T, int N, int V>
struct RowInputs {
  Run<T, N> grad[V];
  Run<T, N> x[V];
  Run<T, N> residual[V];
  RowStatistics statistics;
  std::int64_t offset;  // of the thread's first run
};

// The inputs of a thread's rows, one row at a time on its way to shared memory. Each thread copies
// and reads its own runs alone, so no barrier is needed.
template <typename T, int N, int V, bool kCentered, bool kResidual>
class RowCopies {
 public:
  __device__ RowCopies(const NormArguments& a, const WarpShare<N, V>& share, void* shared)
      : a_(a),
        share_(share),
        places_(static_cast<Run<T, N>*>(shared) + threadIdx.y * blockDim.x + threadIdx.x),
        stride_(gridDim.x * blockDim.y),
        row_(std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y),
        offset_(row_ * a.hidden + share.column) {}

  __device__ bool has_row() const { return row_ < a_.num_rows; }

  // Starts the copies of the row.
  __device__ void ask() {
    if (!has_row()) return;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (!share_.held[v]) continue;
      const std::int64_t from = offset_ + v * share_.kStep;
      copy_async(static_cast<const T*>(a_.grad_output) + from, place(0, v), true);
      copy_async(static_cast<const T*>(a_.x) + from, place(1, v), true);
      if constexpr (kResidual) {
        copy_async(static_cast<const T*>(a_.residual) + from, place(2, v), true);
      }
    }
    commit_copies();
    coming_ = {kCentered ? a_.mean[row_] : 0, a_.inverse[row_]};
  }
  // The row asked for, and on to the next one.
  __device__ RowInputs<T, N, V> take() {
    RowInputs<T, N, V> row = {};
    wait_for_copies<0>();
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (share_.held[v]) row.grad[v] = *place(0, v);
      if (share_.held[v]) row.x[v] = *place(1, v);
      if (kResidual && share_.held[v]) row.residual[v] = *place(2, v);
    }
    row.statistics = coming_;
    row.offset = offset_;
    row_ += stride_;
    offset_ += stride_ * a_.hidden;
    return row;
  }

 private:
  __device__ Run<T, N>* place(int input, int v) const {
    return places_ + (input * V + v) * kNormMostThreads;
  }

  const NormArguments& a_;
  const WarpShare<N, V>& share_;
  Run<T, N>* places_;
  std::int64_t stride_;  // rows
  std::int64_t row_;
  std::int64_t offset_;
  RowStatistics coming_ = {};
};

// A thread's sums over rows, [0] of g n (dw), [1] of g (db; LayerNorm only), n = (x - mean)
// inverse.
template <int N, int V, int K>
using ColumnSums = float[K][V][N];

// Adds a row to the sums of columns; `means` becomes the thread's share of the sums of g w (x -
// mean) and (LayerNorm) of g w.
template <typename T, int N, int V, int K>
__device__ void project(const RowInputs<T, N, V>& row, const float (&weight)[V][N],
                        ColumnSums<N, V, K>& columns, float (&means)[K]) {
#pragma unroll
  for (int k = 0; k < K; ++k) means[k] = 0;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    float g[N];
    float x[N];
    unpack(row.grad[v], g);
    unpack(row.x[v], x);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (K == 2) {
        x[i] -= row.statistics.mean;
        columns[1][v][i] += g[i];
        means[1] += g[i] * weight[v][i];
      }
      const float gx = g[i] * x[i];
      columns[0][v][i] += gx * row.statistics.inverse;
      means[0] += gx * weight[v][i];
    }
  }
}

// dx = inverse (g w - mean(g w) - n mean(g w n)) + residual; `sums` are project()'s of the row.
template <bool kResidual, typename T, int N, int V, int K>
__device__ void write_row(const NormArguments& a, const WarpShare<N, V>& share,
                          const RowInputs<T, N, V>& row, const float (&weight)[V][N],
                          const float (&sums)[K], float inverse_count) {
  const auto [mean, inverse] = row.statistics;
  const float slope = sums[0] * inverse_count * inverse * inverse;
  const float shift = sums[K - 1] * inverse_count;
  T* to = static_cast<T*>(a.output) + row.offset;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    float g[N];
    float x[N];
    unpack(row.grad[v], g);
    unpack(row.x[v], x);
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
      unpack(row.residual[v], x);
#pragma unroll
      for (int i = 0; i < N; ++i) g[i] += x[i];
    }
    if (share.held[v]) store(g, to + v * share.kStep);
  }
}

template <typename T, int N, int V>
__device__ void write_y_again(const NormArguments& a, const WarpShare<N, V>& share,
                              const RowInputs<T, N, V>& row, const float (&weight)[V][N]) {
  T* to = static_cast<T*>(a.remade_y) + row.offset;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (!share.held[v]) continue;
    float x[N];
    float b[N] = {};
    unpack(row.x[v], x);
    if (a.bias != nullptr) load(static_cast<const T*>(a.bias) + share.column + v * share.kStep, b);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      x[i] = (x[i] - row.statistics.mean) * row.statistics.inverse * weight[v][i] + b[i];
    }
    store(x, to + v * share.kStep);
  }
}

// Adds the sums of the block's rows of threads up, in order, and writes them to `out` [hidden].
// `shared` has room for hidden of them a row of threads.
template <int N, int V>
__device__ void write_sums(const float (&sums)[V][N], const WarpShare<N, V>& share, int hidden,
                           float* shared, float* out) {
  constexpr int kFour = 4;
  __syncthreads();  // what lay in shared memory is no longer read
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
    Run<T, N> run{};
    if (share.held[v]) {
      run = read_run<N>(static_cast<const T*>(a.weight) + share.column + v * share.kStep);
    }
    unpack(run, weight[v]);
#pragma unroll
    for (int i = 0; i < N; ++i) weight[v][i] += a.weight_offset;
  }
}

// Shared memory: the rows under way, later the sums.
template <typename T, int N, int V, bool kCentered, bool kResidual>
__global__ void __launch_bounds__(kNormMostThreads) norm_backward_kernel(const NormArguments a) {
  extern __shared__ __align__(16) unsigned char shared[];
  constexpr int kSums = kCentered ? 2 : 1;
  __shared__ __align__(16) typename RowTotals<kSums>::Places places;
  wait_for_previous_kernel();
  const WarpShare<N, V> share(a.hidden);
  RowCopies<T, N, V, kCentered, kResidual> copies(a, share, shared);
  copies.ask();
  float weight[V][N];
  read_weight<T>(a, share, weight);
  RowTotals<kSums> totals(places);
  const float inverse_count = 1.0F / static_cast<float>(a.hidden);
  ColumnSums<N, V, kSums> columns = {};
  while (copies.has_row()) {
    const RowInputs<T, N, V> row = copies.take();
    copies.ask();
    float sums[kSums];
    project(row, weight, columns, sums);
    totals.sum(sums);
    write_row<kResidual>(a, share, row, weight, sums, inverse_count);
    if (a.remade_y != nullptr) write_y_again(a, share, row, weight);
  }
  allow_next_kernel();
  if (a.partials == nullptr) return;
  float* out = a.partials + std::int64_t{blockIdx.x} * kSums * a.hidden;
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
    write_sums(columns[k], share, static_cast<int>(a.hidden), reinterpret_cast<float*>(shared),
               out + k * a.hidden);
  }
}

}  // namespace packtrain::device

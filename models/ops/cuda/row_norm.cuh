// Forward of RMSNorm and (kCentered) LayerNorm over rows. Each row is held in the registers of
// blockDim.x threads, V vectors of N elements each, so that an input is read once. A block has
// blockDim.y rows. blockDim.x is a power of two up to 32, or whole warps.
#pragma once

#include "models/ops/cuda/row_norm_launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/fp8/amax.cuh"

namespace packtrain::device {

constexpr int kNormMaxThreads = 512;

// The columns that a thread holds: vector v starts at column(v).
template <int N>
struct Share {
  int hidden;
  bool present;  // false when the row is beyond the last one

  __device__ int column(int v) const { return (v * blockDim.x + threadIdx.x) * N; }
  __device__ bool holds(int v) const { return present && column(v) < hidden; }
};

// Elements that the thread does not hold are 0.
template <typename T, int N, int V>
__device__ void read_row(const void* from, std::int64_t offset, const Share<N>& share,
                         Vec<T, N> (&to)[V]) {
  const T* row = static_cast<const T*>(from) + offset;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    to[v] = share.holds(v) ? load_vec<N>(row + share.column(v)) : Vec<T, N>{};
  }
}

// Sums over the threads of a row. A row of several warps has its own block. Two buffers alternate,
// so that one barrier a sum is enough. A thread that writes a buffer again has passed the barrier
// of the other buffer. All readers of the first one have passed it too.
class RowSums {
 public:
  template <int K>
  __device__ void sum(float (&values)[K]) {
    const int width = blockDim.x < 32 ? blockDim.x : 32;
    for (int offset = width / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int k = 0; k < K; ++k) values[k] += __shfl_xor_sync(~0U, values[k], offset);
    }
    if (blockDim.x > 32) sum_warps(values);
  }

 private:
  template <int K>
  __device__ void sum_warps(float (&values)[K]) {
    __shared__ float places[2][kNormMaxThreads / 32][2];
    static_assert(K <= 2);
    const int num_warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 0) {
      for (int k = 0; k < K; ++k) places[turn_][threadIdx.x / 32][k] = values[k];
    }
    __syncthreads();
    for (int k = 0; k < K; ++k) values[k] = 0;
    for (int w = 0; w < num_warps; ++w) {
      for (int k = 0; k < K; ++k) values[k] += places[turn_][w][k];
    }
    turn_ ^= 1;
  }

  int turn_ = 0;
};

struct RowStatistics {
  float mean;
  float inverse;
};

template <bool kCentered, typename T, int N, int V>
__device__ RowStatistics statistics_of(Vec<T, N> (&x)[V], const Share<N>& share, float epsilon) {
  RowSums sums;
  const float count = static_cast<float>(share.hidden);
  float mean[1] = {0};
  if constexpr (kCentered) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      float values[N];
      unpack(x[v], values);
#pragma unroll
      for (int i = 0; i < N; ++i) mean[0] += values[i];
    }
    sums.sum(mean);
    mean[0] /= count;
    discard_unpacked(x);
  }
  float square[1] = {0};
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (!share.holds(v)) continue;
    float values[N];
    unpack(x[v], values);
#pragma unroll
    for (int i = 0; i < N; ++i) square[0] += (values[i] - mean[0]) * (values[i] - mean[0]);
  }
  sums.sum(square);
  discard_unpacked(x);
  return {mean[0], rsqrtf(square[0] / count + epsilon)};
}

// Writes y and returns its largest magnitude, if that is wanted. `weight` points to global or
// shared memory.
template <typename T, int N, int V>
__device__ std::uint32_t write_output(const NormArguments& a, const Vec<T, N> (&x)[V],
                                      const T* weight, const RowStatistics& row,
                                      const Share<N>& share, T* to) {
  std::uint32_t amax = 0;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (!share.holds(v)) continue;
    float values[N];
    float w[N];
    float b[N] = {};
    unpack(x[v], values);
    load(weight + share.column(v), w);
    if (a.bias != nullptr) load(static_cast<const T*>(a.bias) + share.column(v), b);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      values[i] = (values[i] - row.mean) * row.inverse * (w[i] + a.weight_offset) + b[i];
    }
    if (a.amax != nullptr) amax = largest_magnitude(values, amax);
    store(values, to + share.column(v));
  }
  return amax;
}

template <typename T, int N, int V, bool kCentered>
__global__ void __launch_bounds__(kNormMaxThreads, 2) norm_forward_kernel(const NormArguments a) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const std::int64_t offset = row * a.row_stride;
  const Share<N> share{static_cast<int>(a.hidden), row < a.num_rows};
  Vec<T, N> x[V];
  read_row(a.x, offset, share, x);
  const RowStatistics statistics = statistics_of<kCentered>(x, share, a.epsilon);
  if (share.present && threadIdx.x == 0) {
    a.inverse[row] = statistics.inverse;
    if constexpr (kCentered) a.mean[row] = statistics.mean;
  }
  const std::uint32_t amax = write_output(a, x, static_cast<const T*>(a.weight), statistics, share,
                                          static_cast<T*>(a.output) + offset);
  if (a.amax == nullptr) return;
  const std::uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x;
  enter_amax<T>(amax, thread, blockIdx.x * (blockDim.x * blockDim.y / 32) + thread / 32, a.amax);
}

}  // namespace packtrain::device

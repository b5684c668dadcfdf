// Norms of rows that do not fit in registers or are not made of whole 16-byte vectors. A block has
// one row and reads it again from the cache for each pass. Correct for any width, but not fast.
#pragma once

#include "models/ops/cuda/row_norm.cuh"

namespace packtrain::device {

constexpr int kWideThreads = 512;

template <typename T, int N, typename Visit>
__device__ void for_each_vec(std::int64_t hidden, const Visit& visit) {
  for (std::int64_t c = threadIdx.x * N; c < hidden; c += kWideThreads * N) visit(c);
}

template <int N, typename T>
__device__ float squares(const T* row, std::int64_t c, float mean) {
  float values[N];
  load(row + c, values);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) sum += (values[i] - mean) * (values[i] - mean);
  return sum;
}

template <int N, typename T>
__device__ std::uint32_t store_output_vec(const NormArguments& a, const T* x, std::int64_t c,
                                          const RowStatistics& row, T* y) {
  float values[N];
  float w[N];
  float b[N] = {};
  load(x + c, values);
  load(static_cast<const T*>(a.weight) + c, w);
  if (a.bias != nullptr) load(static_cast<const T*>(a.bias) + c, b);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    values[i] = (values[i] - row.mean) * row.inverse * (w[i] + a.weight_offset) + b[i];
  }
  store(values, y + c);
  return a.amax != nullptr ? largest_magnitude(values, 0) : 0;
}

template <typename T, int N, bool kCentered>
__global__ void __launch_bounds__(kWideThreads) wide_norm_forward_kernel(const NormArguments a) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t offset = row * a.row_stride;
  const T* x = static_cast<const T*>(a.x) + offset;
  RowSums sums;
  float mean[1] = {0};
  if constexpr (kCentered) {
    for_each_vec<T, N>(a.hidden, [&](std::int64_t c) {
      float values[N];
      load(x + c, values);
      for (int i = 0; i < N; ++i) mean[0] += values[i];
    });
    sums.sum(mean);
    mean[0] /= static_cast<float>(a.hidden);
  }
  float square[1] = {0};
  for_each_vec<T, N>(a.hidden, [&](std::int64_t c) { square[0] += squares<N>(x, c, mean[0]); });
  sums.sum(square);
  const RowStatistics statistics{mean[0],
                                 rsqrtf(square[0] / static_cast<float>(a.hidden) + a.epsilon)};
  if (threadIdx.x == 0) {
    a.inverse[row] = statistics.inverse;
    if constexpr (kCentered) a.mean[row] = statistics.mean;
  }
  std::uint32_t amax = 0;
  for_each_vec<T, N>(a.hidden, [&](std::int64_t c) {
    amax = max(amax, store_output_vec<N>(a, x, c, statistics, static_cast<T*>(a.output) + offset));
  });
  if (a.amax == nullptr) return;
  enter_amax<T>(amax, threadIdx.x, blockIdx.x * (kWideThreads / 32) + threadIdx.x / 32, a.amax);
}

// The values that backward needs of a vector.
template <int N>
struct GradientVec {
  float grad[N];        // gradient of the output
  float normalized[N];  // (x - mean) inverse
  float scaled[N];      // grad times weight
};

template <int N, typename T>
__device__ GradientVec<N> gradient_vec(const NormArguments& a, std::int64_t offset, std::int64_t c,
                                       const RowStatistics& row) {
  GradientVec<N> run;
  float w[N];
  load(static_cast<const T*>(a.grad_output) + offset + c, run.grad);
  load(static_cast<const T*>(a.x) + offset + c, run.normalized);
  load(static_cast<const T*>(a.weight) + c, w);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    run.normalized[i] = (run.normalized[i] - row.mean) * row.inverse;
    run.scaled[i] = run.grad[i] * (w[i] + a.weight_offset);
  }
  return run;
}

// Adds g n and, in LayerNorm, g to the block's own partial sums. No other block writes there, so no
// atomics are needed.
template <int N, int K>
__device__ void add_to_partials(const NormArguments& a, const GradientVec<N>& run, std::int64_t c,
                                bool first) {
  float* partials = a.partials + std::int64_t{blockIdx.x} * K * a.hidden + c;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float product = run.grad[i] * run.normalized[i];
    partials[i] = first ? product : partials[i] + product;
    if constexpr (K == 2) {
      float& bias_sum = partials[a.hidden + i];
      bias_sum = first ? run.grad[i] : bias_sum + run.grad[i];
    }
  }
}

template <typename T, int N, int K>
__device__ void wide_dx_run(const NormArguments& a, std::int64_t offset, std::int64_t c,
                            const RowStatistics& row, const float (&means)[K]) {
  const GradientVec<N> run = gradient_vec<N, T>(a, offset, c, row);
  float dx[N] = {};
  if (a.residual != nullptr) load(static_cast<const T*>(a.residual) + offset + c, dx);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    float slope = run.scaled[i] - run.normalized[i] * means[0];
    if constexpr (K == 2) slope -= means[1];
    dx[i] += row.inverse * slope;
  }
  store(dx, static_cast<T*>(a.output) + offset + c);
}

template <typename T, int N, bool kCentered>
__global__ void __launch_bounds__(kWideThreads) wide_norm_backward_kernel(const NormArguments a) {
  constexpr int kSums = kCentered ? 2 : 1;
  RowSums sums;
  for (std::int64_t row = blockIdx.x; row < a.num_rows; row += gridDim.x) {
    const std::int64_t offset = row * a.row_stride;
    RowStatistics statistics{0, a.inverse[row]};
    if constexpr (kCentered) statistics.mean = a.mean[row];
    float means[kSums] = {};
    for_each_vec<T, N>(a.hidden, [&](std::int64_t c) {
      const GradientVec<N> run = gradient_vec<N, T>(a, offset, c, statistics);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        means[0] += run.scaled[i] * run.normalized[i];
        if constexpr (kCentered) means[1] += run.scaled[i];
      }
      if (a.partials != nullptr) add_to_partials<N, kSums>(a, run, c, row == blockIdx.x);
    });
    sums.sum(means);
    for (float& mean : means) mean /= static_cast<float>(a.hidden);
    for_each_vec<T, N>(a.hidden, [&](std::int64_t c) {
      wide_dx_run<T, N>(a, offset, c, statistics, means);
      if (a.recomputed_output == nullptr) return;
      store_output_vec<N>(a, static_cast<const T*>(a.x) + offset, c, statistics,
                          static_cast<T*>(a.recomputed_output) + offset);
    });
  }
}

}  // namespace packtrain::device

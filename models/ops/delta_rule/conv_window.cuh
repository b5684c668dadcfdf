// What the kernels of convolutions along sequences share: rows of a block of threads, the window
// of a thread's channels, and launches. A row of y or dx is computed in an order that does not
// depend on the block or on other sequences.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/delta_rule/causal_conv_launch.h"

namespace packtrain::device {

constexpr int kConvThreads = 128;
// Channels of a thread. More would leave too few threads on a multiprocessor.
constexpr int kConvVector = 4;

// Rows of one sequence that a block of threads has.
struct RowSegment {
  std::int64_t first;  // row of the sequence
  std::int64_t last;   // end of the sequence
  std::int64_t begin;
  std::int64_t end;
};

// Returns the last sequence that begins at `row` or before.
__device__ inline std::int64_t sequence_at(const CausalConvArguments& a, std::int64_t row) {
  std::int64_t low = 0;
  std::int64_t high = a.num_sequences;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (a.boundaries[middle] <= row ? low : high) = middle;
  }
  return low;
}

template <typename T, int N>
struct ConvWeights {
  template <int W>
  __device__ static void load(const CausalConvArguments& a, std::int64_t channel,
                              float (&weights)[W][N], float (&bias)[N]) {
    const T* from = static_cast<const T*>(a.weight);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      bias[i] = 0;
      if (a.bias != nullptr) bias[i] = to_float(static_cast<const T*>(a.bias)[channel + i]);
#pragma unroll
      for (int lag = 0; lag < W; ++lag) {
        weights[lag][i] =
            lag < a.width ? to_float(from[(channel + i) * a.width + a.width - 1 - lag]) : 0;
      }
    }
  }
};

// The last W rows: that of lag 0 first.
template <int W, int N>
__device__ void push_row(float (&rows)[W][N], const float (&row)[N]) {
#pragma unroll
  for (int lag = W - 1; lag > 0; --lag) {
#pragma unroll
    for (int i = 0; i < N; ++i) rows[lag][i] = rows[lag - 1][i];
  }
#pragma unroll
  for (int i = 0; i < N; ++i) rows[0][i] = row[i];
}

// The last W rows of N channels of a sequence, with the channels' weights and their gradients. A
// channel has W weights, or at most W where W is kCausalConvMaxWidth.
template <typename T, int N, int W>
class ConvWindow {
 public:
  __device__ ConvWindow(const CausalConvArguments& a, std::int64_t channel)
      : a_(a), channel_(channel) {
    ConvWeights<T, N>::load(a, channel, weights_, bias_);
  }

  __device__ void push(const float (&row)[N]) { push_row(rows_, row); }

  // z of the last row.
  __device__ void convolve(float (&z)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) z[i] = bias_[i];
#pragma unroll
    for (int lag = 0; lag < W; ++lag) {
      if (!has_weight(lag)) break;  // a weight of 0 would keep a NaN
#pragma unroll
      for (int i = 0; i < N; ++i) z[i] = fmaf(weights_[lag][i], rows_[lag][i], z[i]);
    }
  }

  // dz of the last row.
  __device__ void add_weight_gradient(const float (&dz)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      grad_bias_[i] += dz[i];
#pragma unroll
      for (int lag = 0; lag < W; ++lag) {
        grad_weights_[lag][i] = fmaf(dz[i], rows_[lag][i], grad_weights_[lag][i]);
      }
    }
  }

  // dx of the first of W rows, whose dz are `grads`, the last row first.
  __device__ void gradient(const float (&grads)[W][N], float (&dx)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) dx[i] = 0;
#pragma unroll
    for (int lag = 0; lag < W; ++lag) {
      if (!has_weight(lag)) break;
#pragma unroll
      for (int i = 0; i < N; ++i) dx[i] = fmaf(weights_[lag][i], grads[W - 1 - lag][i], dx[i]);
    }
  }

  __device__ void write_partials(std::int64_t block) const {
    float* to = a_.weight_partials + (block * a_.num_channels + channel_) * a_.width;
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
      for (int lag = 0; lag < W; ++lag) {
        if (has_weight(lag)) to[i * a_.width + a_.width - 1 - lag] = grad_weights_[lag][i];
      }
      if (a_.bias_partials != nullptr) {
        a_.bias_partials[block * a_.num_channels + channel_ + i] = grad_bias_[i];
      }
    }
  }

 private:
  __device__ bool has_weight(int lag) const { return W < kCausalConvMaxWidth || lag < a_.width; }

  const CausalConvArguments& a_;
  std::int64_t channel_;
  float weights_[W][N];
  float bias_[N];
  float rows_[W][N] = {};
  float grad_weights_[W][N] = {};
  float grad_bias_[N] = {};
};

// Calls work(segment) for the sequences' parts that block blockIdx.x has.
template <class Work>
__device__ void for_row_segments(const CausalConvArguments& a, const Work& work) {
  const std::int64_t block = blockIdx.x;
  const std::int64_t end = min((block + 1) * kCausalConvRows, a.num_rows);
  std::int64_t row = block * kCausalConvRows;
  for (std::int64_t s = sequence_at(a, row); row < end; ++s) {
    const std::int64_t last = a.boundaries[s + 1];
    if (last <= row) continue;
    const RowSegment rows = {a.boundaries[s], last, row, min(last, end)};
    work(rows);
    row = rows.end;
  }
}

// Conv<T, N, W> is made of (arguments, first of N channels), and has forward(RowSegment),
// backward(RowSegment) and write_partials(). Arguments are CausalConvArguments or more.
template <template <typename, int, int> class Conv, typename T, int N, int W, bool kBackward,
          class Arguments>
__global__ void __launch_bounds__(kConvThreads) conv_kernel(const __grid_constant__ Arguments a) {
  const std::int64_t channel = (std::int64_t{blockIdx.y} * kConvThreads + threadIdx.x) * N;
  if (channel >= a.num_channels) return;
  Conv<T, N, W> conv(a, channel);
  for_row_segments(a, [&](const RowSegment& rows) {
    if constexpr (kBackward) {
      conv.backward(rows);
    } else {
      conv.forward(rows);
    }
  });
  if constexpr (kBackward) conv.write_partials();
}

// Blocks of threads for N channels a thread.
inline dim3 conv_grid(const CausalConvArguments& a, int channels) {
  const auto blocks = static_cast<unsigned>((a.num_rows + kCausalConvRows - 1) / kCausalConvRows);
  const std::int64_t of_block = std::int64_t{kConvThreads} * channels;
  return {blocks, static_cast<unsigned>((a.num_channels + of_block - 1) / of_block), 1};
}

template <template <typename, int, int> class Conv, typename T, int N, int W, class Arguments>
void launch_conv_width(const Arguments& a, cudaStream_t stream) {
  const dim3 grid = conv_grid(a, N);
  if (a.grad_output == nullptr) {
    conv_kernel<Conv, T, N, W, false><<<grid, kConvThreads, 0, stream>>>(a);
  } else {
    conv_kernel<Conv, T, N, W, true><<<grid, kConvThreads, 0, stream>>>(a);
  }
}

// Launches the kernel of the channels' number of weights, or else that of any number.
template <template <typename, int, int> class Conv, typename T, int N, class Arguments, int... kW>
void launch_conv_vectors(const Arguments& a, std::integer_sequence<int, kW...> /*widths*/,
                         cudaStream_t stream) {
  const auto launch_if_fits = [&](auto width) {
    if (a.width != width && width != kCausalConvMaxWidth) return false;
    launch_conv_width<Conv, T, N, width>(a, stream);
    return true;
  };
  (launch_if_fits(std::integral_constant<int, kW>()) || ...);
}

template <template <typename, int, int> class Conv, typename T, class Arguments, class Widths>
void launch_conv_type(const Arguments& a, Widths widths, bool has_vectors, cudaStream_t stream) {
  if (has_vectors) return launch_conv_vectors<Conv, T, kConvVector>(a, widths, stream);
  launch_conv_vectors<Conv, T, 1>(a, widths, stream);
}

// Each of `kWidths` is a kernel. The last one is kCausalConvMaxWidth. `has_vectors`: can rows
// be read in vectors of kConvVector elements? Throws Error(kDevice) when the launch fails.
template <template <typename, int, int> class Conv, int... kWidths, class Arguments>
void launch_conv(const Arguments& a, bool has_vectors, void* stream) {
  if (a.num_rows == 0 || a.num_channels == 0) return;
  const std::integer_sequence<int, kWidths...> widths;
  const auto on = static_cast<cudaStream_t>(stream);
  if (a.dtype == DataType::kBFloat16) {
    launch_conv_type<Conv, __nv_bfloat16>(a, widths, has_vectors, on);
  } else {
    launch_conv_type<Conv, float>(a, widths, has_vectors, on);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain::device

// Bound by memory. A thread has N channels and walks over the rows of a block. The last W rows stay
// in its registers, so that x is read once, and W - 1 rows more a block.
//
// A row of y or dx is computed in an order that does not depend on the block or on other sequences.
// Backward writes sums of weight gradients of each block, which column_sums adds in a fixed order.
#include "framework/device/cuda/check.h"
#include "models/ops/activation/evaluate.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/delta_rule/causal_conv_launch.h"

namespace packtrain {
namespace {

constexpr int kConvThreads = 128;
constexpr int kRowsInFlight = 4;

// N elements as loaded. Words, because the compiler would give each bfloat16 its own register.
template <typename T, int N>
struct LoadedRow {
  device::Vec<T, N> values;
  __device__ void unpack(float (&to)[N]) const { device::unpack(values, to); }
};
template <>
struct alignas(8) LoadedRow<__nv_bfloat16, 4> {
  std::uint32_t words[2];
  __device__ void unpack(float (&to)[4]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      to[2 * i] = device::low_bfloat16(words[i]);
      to[2 * i + 1] = device::high_bfloat16(words[i]);
    }
  }
};
template <typename T, int N>
__device__ LoadedRow<T, N> load_row(const T* from) {
  return *reinterpret_cast<const LoadedRow<T, N>*>(from);
}

// Rows of one sequence that a block of threads has.
struct RowSegment {
  std::int64_t first;  // row of the sequence
  std::int64_t last;   // end of the sequence
  std::int64_t begin;
  std::int64_t end;
};

// Returns the last sequence that begins at `row` or before.
__device__ std::int64_t sequence_at(const CausalConvArguments& a, std::int64_t row) {
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
      if (a.bias != nullptr) bias[i] = device::to_float(static_cast<const T*>(a.bias)[channel + i]);
#pragma unroll
      for (int lag = 0; lag < W; ++lag) {
        weights[lag][i] =
            lag < a.width ? device::to_float(from[(channel + i) * a.width + a.width - 1 - lag]) : 0;
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

template <typename T, int N, int W>
class ChannelConv {
 public:
  __device__ ChannelConv(const CausalConvArguments& a, std::int64_t channel)
      : a_(a), channel_(channel) {
    ConvWeights<T, N>::load(a, channel, weights_, bias_);
  }

  __device__ void forward(const RowSegment& rows) {
    load_before(rows);
    for (std::int64_t t = rows.begin; t < rows.end; t += kRowsInFlight) {
      LoadedRow<T, N> in[kRowsInFlight];
#pragma unroll
      for (int r = 0; r < kRowsInFlight; ++r) {
        if (t + r < rows.end) in[r] = load_row<T, N>(x_row(t + r));
      }
#pragma unroll
      for (int r = 0; r < kRowsInFlight; ++r) {
        if (t + r >= rows.end) break;
        float z[N];
        add_row(in[r], z);
        if (a_.silu) {
#pragma unroll
          for (int i = 0; i < N; ++i) z[i] *= device::logistic(z[i]);
        }
        device::store(z, static_cast<T*>(a_.output) + (t + r) * a_.num_channels + channel_);
      }
    }
  }

  // dx of a row is complete W - 1 rows later. Rows after the sequence have no gradient.
  __device__ void backward(const RowSegment& rows) {
    load_before(rows);
    float grads[W][N] = {};  // dz of the last rows
    const std::int64_t end = rows.end + W - 1;
    for (std::int64_t t = rows.begin; t < end; t += kRowsInFlight) {
      LoadedRow<T, N> in[kRowsInFlight];
      LoadedRow<T, N> grad[kRowsInFlight];
#pragma unroll
      for (int r = 0; r < kRowsInFlight; ++r) {
        if (t + r >= min(rows.last, end)) break;
        in[r] = load_row<T, N>(x_row(t + r));
        grad[r] = load_row<T, N>(static_cast<const T*>(a_.grad_output) + (t + r) * a_.num_channels +
                                 channel_);
      }
#pragma unroll
      for (int r = 0; r < kRowsInFlight; ++r) {
        const std::int64_t row = t + r;
        if (row >= end) break;
        float dz[N] = {};
        if (row < rows.last) grad_row(in[r], grad[r], dz);
        push_row(grads, dz);
        if (row < rows.end) add_weight_gradient(dz);
        if (row - (W - 1) >= rows.begin) write_grad_x(row - (W - 1), grads);
      }
    }
  }

  __device__ void write_partials(std::int64_t block) const {
    float* to = a_.weight_partials + (block * a_.num_channels + channel_) * a_.width;
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
      for (int lag = 0; lag < W; ++lag) {
        if (lag < a_.width) to[i * a_.width + a_.width - 1 - lag] = grad_weights_[lag][i];
      }
      if (a_.bias_partials != nullptr) {
        a_.bias_partials[block * a_.num_channels + channel_ + i] = grad_bias_[i];
      }
    }
  }

 private:
  __device__ const T* x_row(std::int64_t row) const {
    return static_cast<const T*>(a_.x) + row * a_.x_stride + channel_;
  }

  // Fills the window with the rows of the sequence before the segment.
  __device__ void load_before(const RowSegment& rows) {
#pragma unroll
    for (int lag = W - 1; lag >= 1; --lag) {
      float row[N] = {};
      if (rows.begin - lag >= rows.first) device::load(x_row(rows.begin - lag), row);
      push_row(window_, row);
    }
  }

  __device__ void add_row(const LoadedRow<T, N>& in, float (&z)[N]) {
    float row[N];
    in.unpack(row);
    push_row(window_, row);
#pragma unroll
    for (int i = 0; i < N; ++i) z[i] = bias_[i];
#pragma unroll
    for (int lag = 0; lag < W; ++lag) {
      if (lag >= a_.width) break;  // a weight of 0 would keep a NaN
#pragma unroll
      for (int i = 0; i < N; ++i) z[i] = fmaf(weights_[lag][i], window_[lag][i], z[i]);
    }
  }

  __device__ void grad_row(const LoadedRow<T, N>& in, const LoadedRow<T, N>& grad, float (&dz)[N]) {
    float z[N];
    grad.unpack(dz);
    add_row(in, z);
    if (!a_.silu) return;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float s = device::logistic(z[i]);
      dz[i] *= s * (1.0F + z[i] * (1.0F - s));
    }
  }

  __device__ void add_weight_gradient(const float (&dz)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      grad_bias_[i] += dz[i];
#pragma unroll
      for (int lag = 0; lag < W; ++lag) {
        grad_weights_[lag][i] = fmaf(dz[i], window_[lag][i], grad_weights_[lag][i]);
      }
    }
  }

  __device__ void write_grad_x(std::int64_t row, const float (&grads)[W][N]) {
    float dx[N] = {};
#pragma unroll
    for (int lag = 0; lag < W; ++lag) {
      if (lag >= a_.width) break;
#pragma unroll
      for (int i = 0; i < N; ++i) dx[i] = fmaf(weights_[lag][i], grads[W - 1 - lag][i], dx[i]);
    }
    device::store(dx, static_cast<T*>(a_.output) + row * a_.num_channels + channel_);
  }

  const CausalConvArguments& a_;
  std::int64_t channel_;
  float weights_[W][N];
  float bias_[N];
  float window_[W][N] = {};  // rows of x
  float grad_weights_[W][N] = {};
  float grad_bias_[N] = {};
};

template <typename T, int N, int W, bool kBackward>
__global__ void __launch_bounds__(kConvThreads)
    causal_conv_kernel(const __grid_constant__ CausalConvArguments a) {
  const std::int64_t channel = (std::int64_t{blockIdx.y} * kConvThreads + threadIdx.x) * N;
  if (channel >= a.num_channels) return;
  ChannelConv<T, N, W> conv(a, channel);
  const std::int64_t block = blockIdx.x;
  const std::int64_t end = min((block + 1) * kCausalConvRows, a.num_rows);
  std::int64_t row = block * kCausalConvRows;
  for (std::int64_t s = sequence_at(a, row); row < end; ++s) {
    const std::int64_t last = a.boundaries[s + 1];
    if (last <= row) continue;
    const RowSegment rows = {a.boundaries[s], last, row, min(last, end)};
    if constexpr (kBackward) {
      conv.backward(rows);
    } else {
      conv.forward(rows);
    }
    row = rows.end;
  }
  if constexpr (kBackward) conv.write_partials(block);
}

template <typename T, int N, int W>
void launch_conv_width(const CausalConvArguments& a, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((a.num_rows + kCausalConvRows - 1) / kCausalConvRows);
  constexpr std::int64_t kChannels = std::int64_t{kConvThreads} * N;
  const auto columns = static_cast<unsigned>((a.num_channels + kChannels - 1) / kChannels);
  const dim3 grid(blocks, columns);
  if (a.grad_output == nullptr) {
    causal_conv_kernel<T, N, W, false><<<grid, kConvThreads, 0, stream>>>(a);
  } else {
    causal_conv_kernel<T, N, W, true><<<grid, kConvThreads, 0, stream>>>(a);
  }
}

template <typename T, int N>
void launch_conv_vectors(const CausalConvArguments& a, cudaStream_t stream) {
  if (a.width <= 4) return launch_conv_width<T, N, 4>(a, stream);
  launch_conv_width<T, N, kCausalConvMaxWidth>(a, stream);
}

template <typename T>
void launch_conv_type(const CausalConvArguments& a, cudaStream_t stream) {
  constexpr int kVector = 4;  // larger ones would leave too few threads on a multiprocessor
  const bool whole = can_vectorize(a.num_channels, sizeof(T), a.x, a.grad_output, a.output) &&
                     a.x_stride % kVector == 0;
  whole ? launch_conv_vectors<T, kVector>(a, stream) : launch_conv_vectors<T, 1>(a, stream);
}

}  // namespace

void launch_causal_conv(const CausalConvArguments& arguments, void* stream) {
  if (arguments.num_rows == 0 || arguments.num_channels == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.dtype == DataType::kBFloat16 ? launch_conv_type<__nv_bfloat16>(arguments, on)
                                         : launch_conv_type<float>(arguments, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

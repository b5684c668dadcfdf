// Bound by memory. A thread has N channels and walks over the rows of a block. The last W rows stay
// in its registers, so that x is read once, and W - 1 rows more a block.
//
// Backward writes sums of weight gradients of each block, which column_sums adds in a fixed order.
#include "models/ops/activation/evaluate.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/delta_rule/causal_conv_launch.h"
#include "models/ops/delta_rule/conv_window.cuh"

namespace packtrain {
namespace {

using device::RowSegment;

constexpr int kRowsInFlight = 4;

template <typename T, int N, int W>
class ChannelConv {
 public:
  __device__ ChannelConv(const CausalConvArguments& a, std::int64_t channel)
      : a_(a), channel_(channel), window_(a, channel) {}

  __device__ void forward(const RowSegment& rows) {
    load_before(rows);
    std::int64_t t = rows.begin;
    for (; t + kRowsInFlight <= rows.end; t += kRowsInFlight) forward_rows<true>(rows, t);
    if (t < rows.end) forward_rows<false>(rows, t);
  }

  // dx of a row is complete W - 1 rows later. Rows after the sequence have no gradient.
  __device__ void backward(const RowSegment& rows) {
    load_before(rows);
    float grads[W][N] = {};  // dz of the last rows
    const std::int64_t end = rows.end + W - 1;
    std::int64_t t = rows.begin;
    for (; t < min(rows.begin + W - 1, end); t += kRowsInFlight) {
      backward_rows<false>(rows, t, grads);
    }
    for (; t + kRowsInFlight <= rows.end; t += kRowsInFlight) backward_rows<true>(rows, t, grads);
    for (; t < end; t += kRowsInFlight) backward_rows<false>(rows, t, grads);
  }

  __device__ void write_partials() const { window_.write_partials(blockIdx.x); }

 private:
  // kRowsInFlight rows from t on. kWhole: all are in the segment. Without branches the compiler
  // renames the registers of windows, and moves none.
  template <bool kWhole>
  __device__ void forward_rows(const RowSegment& rows, std::int64_t t) {
    device::Vec<T, N> in[kRowsInFlight];
#pragma unroll
    for (int r = 0; r < kRowsInFlight; ++r) {
      if (kWhole || t + r < rows.end) in[r] = device::load_vec<N>(x_row(t + r));
    }
#pragma unroll
    for (int r = 0; r < kRowsInFlight; ++r) {
      if (!kWhole && t + r >= rows.end) break;
      float z[N];
      add_row(in[r], z);
      if (a_.silu) {
#pragma unroll
        for (int i = 0; i < N; ++i) z[i] *= device::logistic(z[i]);
      }
      device::store(z, static_cast<T*>(a_.output) + (t + r) * a_.output_stride + channel_);
    }
  }

  // kWhole: the rows are in the segment, and so are the W - 1 before them.
  template <bool kWhole>
  __device__ void backward_rows(const RowSegment& rows, std::int64_t t, float (&grads)[W][N]) {
    const std::int64_t end = rows.end + W - 1;
    device::Vec<T, N> in[kRowsInFlight];
    device::Vec<T, N> grad[kRowsInFlight];
#pragma unroll
    for (int r = 0; r < kRowsInFlight; ++r) {
      if (!kWhole && t + r >= min(rows.last, end)) break;
      in[r] = device::load_vec<N>(x_row(t + r));
      grad[r] = device::load_vec<N>(static_cast<const T*>(a_.grad_output) +
                                    (t + r) * a_.num_channels + channel_);
    }
#pragma unroll
    for (int r = 0; r < kRowsInFlight; ++r) {
      const std::int64_t row = t + r;
      if (!kWhole && row >= end) break;
      float dz[N] = {};
      if (kWhole || row < rows.last) grad_row(in[r], grad[r], dz);
      device::push_row(grads, dz);
      if (kWhole || row < rows.end) window_.add_weight_gradient(dz);
      if (kWhole || row - (W - 1) >= rows.begin) write_grad_x(row - (W - 1), grads);
    }
  }

  __device__ const T* x_row(std::int64_t row) const {
    return static_cast<const T*>(a_.x) + row * a_.x_stride + channel_;
  }

  // Fills the window with the rows of the sequence before the segment.
  __device__ void load_before(const RowSegment& rows) {
#pragma unroll
    for (int lag = W - 1; lag >= 1; --lag) {
      float row[N] = {};
      if (rows.begin - lag >= rows.first) device::load(x_row(rows.begin - lag), row);
      window_.push(row);
    }
  }

  __device__ void add_row(const device::Vec<T, N>& in, float (&z)[N]) {
    float row[N];
    device::unpack(in, row);
    window_.push(row);
    window_.convolve(z);
  }

  __device__ void grad_row(const device::Vec<T, N>& in, const device::Vec<T, N>& grad,
                           float (&dz)[N]) {
    float z[N];
    device::unpack(grad, dz);
    add_row(in, z);
    if (!a_.silu) return;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float s = device::logistic(z[i]);
      dz[i] *= s * (1.0F + z[i] * (1.0F - s));
    }
  }

  __device__ void write_grad_x(std::int64_t row, const float (&grads)[W][N]) {
    float dx[N];
    window_.gradient(grads, dx);
    device::store(dx, static_cast<T*>(a_.output) + row * a_.output_stride + channel_);
  }

  const CausalConvArguments& a_;
  std::int64_t channel_;
  device::ConvWindow<T, N, W> window_;
};

}  // namespace

void launch_causal_conv(const CausalConvArguments& arguments, void* stream) {
  const CausalConvArguments& a = arguments;
  const auto element_bytes = static_cast<std::int64_t>(size_of(a.dtype));
  const bool has_vectors =
      can_vectorize(a.num_channels, element_bytes, a.x, a.grad_output, a.output) &&
      a.x_stride % device::kConvVector == 0 && a.output_stride % device::kConvVector == 0;
  device::launch_conv<ChannelConv, 4, kCausalConvMaxWidth>(a, has_vectors, stream);
}

}  // namespace packtrain

// Bound by memory. A thread has N channels and walks over the rows of a block, as in
// causal_conv.cu. It reads b, c and x once, and W - 1 rows more a block.
#include "models/ops/cuda/launch.h"
#include "models/ops/delta_rule/conv_window.cuh"
#include "models/ops/short_conv/short_conv_launch.h"

namespace packtrain {
namespace {

using device::RowSegment;

constexpr int kGatedRows = 2;  // in flight

// Products round to T, as those of libtorch.
template <typename T>
__device__ float rounded(float x) {
  return device::to_float(device::from_float<T>(x));
}

template <typename T, int N>
__device__ void multiply(const float (&a)[N], const float (&b)[N], float (&to)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = rounded<T>(a[i] * b[i]);
}

template <typename T, int N, int W>
class GatedConv {
 public:
  __device__ GatedConv(const ShortConvArguments& a, std::int64_t channel)
      : a_(a), channel_(channel), window_(a, channel) {}

  __device__ void forward(const RowSegment& rows) {
    load_before(rows);
    for (std::int64_t t = rows.begin; t < rows.end; t += kGatedRows) {
      Row in[kGatedRows];
#pragma unroll
      for (int r = 0; r < kGatedRows; ++r) {
        if (t + r < rows.end) in[r] = load(t + r);
      }
#pragma unroll
      for (int r = 0; r < kGatedRows; ++r) {
        if (t + r >= rows.end) break;
        float z[N];
        add_row(in[r], z);
        write_output(t + r, in[r], z);
      }
    }
  }

  // The gradients of b and x of a row are complete W - 1 rows later.
  __device__ void backward(const RowSegment& rows) {
    load_before(rows);
    float grads[W][N] = {};  // dz of the last rows
    Row before[W] = {};      // the last rows, that of lag 0 first
    const std::int64_t end = rows.end + W - 1;
    for (std::int64_t t = rows.begin; t < end; t += kGatedRows) {
      Row in[kGatedRows] = {};
      device::Vec<T, N> grad[kGatedRows] = {};
#pragma unroll
      for (int r = 0; r < kGatedRows; ++r) {
        if (t + r >= min(rows.last, end)) break;
        in[r] = load(t + r);
        grad[r] = device::load_vec<N>(static_cast<const T*>(a_.grad_output) +
                                      (t + r) * a_.num_channels + channel_);
      }
#pragma unroll
      for (int r = 0; r < kGatedRows; ++r) {
        const std::int64_t row = t + r;
        if (row >= end) break;
#pragma unroll
        for (int lag = W - 1; lag > 0; --lag) before[lag] = before[lag - 1];
        before[0] = in[r];
        float dz[N] = {};
        if (row < rows.last) grad_row(in[r], grad[r], row, row < rows.end, dz);
        device::push_row(grads, dz);
        if (row < rows.end) window_.add_weight_gradient(dz);
        if (row - (W - 1) >= rows.begin) write_gradients(row - (W - 1), before[W - 1], grads);
      }
    }
  }

  __device__ void write_partials() const { window_.write_partials(blockIdx.x); }

 private:
  struct Row {
    device::Vec<T, N> b;
    device::Vec<T, N> c;
    device::Vec<T, N> x;
  };

  __device__ Row load(std::int64_t row) const {
    const std::int64_t at = row * a_.x_stride + channel_;
    return {device::load_vec<N>(static_cast<const T*>(a_.b) + at),
            device::load_vec<N>(static_cast<const T*>(a_.c) + at),
            device::load_vec<N>(static_cast<const T*>(a_.x) + at)};
  }

  // Fills the window with the rows of the sequence before the segment.
  __device__ void load_before(const RowSegment& rows) {
#pragma unroll
    for (int lag = W - 1; lag >= 1; --lag) {
      float product[N] = {};
      if (rows.begin - lag >= rows.first) {
        const std::int64_t at = (rows.begin - lag) * a_.x_stride + channel_;
        float b[N], x[N];
        device::load(static_cast<const T*>(a_.b) + at, b);
        device::load(static_cast<const T*>(a_.x) + at, x);
        multiply<T>(b, x, product);
      }
      window_.push(product);
    }
  }

  // z of the row.
  __device__ void add_row(const Row& in, float (&z)[N]) {
    float b[N], x[N], product[N];
    device::unpack(in.b, b);
    device::unpack(in.x, x);
    multiply<T>(b, x, product);
    window_.push(product);
    window_.convolve(z);
#pragma unroll
    for (int i = 0; i < N; ++i) z[i] = rounded<T>(z[i]);
  }

  __device__ void write_output(std::int64_t row, const Row& in, const float (&z)[N]) const {
    float c[N], y[N];
    device::unpack(in.c, c);
    multiply<T>(z, c, y);
    device::store(y, static_cast<T*>(a_.output) + row * a_.num_channels + channel_);
  }

  // dz. Rows of the segment also have dc, and y.
  __device__ void grad_row(const Row& in, const device::Vec<T, N>& grad, std::int64_t row,
                           bool writes, float (&dz)[N]) {
    float z[N], c[N], of_y[N];
    add_row(in, z);
    device::unpack(in.c, c);
    device::unpack(grad, of_y);
    multiply<T>(of_y, c, dz);
    if (!writes) return;
    float dc[N];
    multiply<T>(of_y, z, dc);
    device::store(dc, static_cast<T*>(a_.grad_c) + row * a_.grad_stride + channel_);
    if (a_.output != nullptr) write_output(row, in, z);
  }

  __device__ void write_gradients(std::int64_t row, const Row& in,
                                  const float (&grads)[W][N]) const {
    float of_product[N], b[N], x[N], db[N], dx[N];
    window_.gradient(grads, of_product);
    device::unpack(in.b, b);
    device::unpack(in.x, x);
#pragma unroll
    for (int i = 0; i < N; ++i) of_product[i] = rounded<T>(of_product[i]);
    multiply<T>(of_product, x, db);
    multiply<T>(of_product, b, dx);
    const std::int64_t at = row * a_.grad_stride + channel_;
    device::store(db, static_cast<T*>(a_.grad_b) + at);
    device::store(dx, static_cast<T*>(a_.grad_x) + at);
  }

  const ShortConvArguments& a_;
  std::int64_t channel_;
  device::ConvWindow<T, N, W> window_;  // of products b x
};

}  // namespace

void launch_short_conv(const ShortConvArguments& arguments, void* stream) {
  const ShortConvArguments& a = arguments;
  const auto element_bytes = static_cast<std::int64_t>(size_of(a.dtype));
  const bool has_vectors = can_vectorize(a.num_channels, element_bytes, a.x, a.b, a.c,
                                         a.grad_output, a.output, a.grad_b, a.grad_c, a.grad_x) &&
                           a.x_stride % device::kConvVector == 0 &&
                           a.grad_stride % device::kConvVector == 0;
  // LFM2's 3 weights a channel need no fourth row of registers.
  device::launch_conv<GatedConv, 3, 4, kCausalConvMaxWidth>(a, has_vectors, stream);
}

}  // namespace packtrain

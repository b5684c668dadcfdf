// Bound by memory. A block of threads has one part of a row at a time, whose elements stay in
// registers. A block of the backward has the same part of many rows. It keeps sums of the weight's
// gradient, in a partition that depends on sizes alone.
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/activation/evaluate.cuh"
#include "models/ops/cuda/alignment.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/cuda/warp_sum.cuh"
#include "models/ops/gated_norm/product_norm_inputs.cuh"
#include "models/ops/gated_norm/product_norm_launch.h"

namespace packtrain {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kWarps = kMaxThreads / 32;
// With one run a thread, at most 64 registers let a multiprocessor hold 1,024 threads. All blocks
// then run together on the 132 of an H200. Blocks have equal rows: a few more would double the
// time.
constexpr std::int64_t kThreadsOfBackward = 132 * 1024;

// Sums over the threads of the block, in a fixed order. All call it.
__device__ float2 block_sums(float2 value) {
  __shared__ float2 of_warps[kWarps];
  value = {device::warp_sum(value.x), device::warp_sum(value.y)};
  __syncthreads();  // the sums before have been read
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  float2 sum = of_warps[0];
  for (int warp = 1; warp < static_cast<int>(blockDim.x) / 32; ++warp) {
    sum.x += of_warps[warp].x;
    sum.y += of_warps[warp].y;
  }
  return sum;
}

__device__ float inverse_rms(const ProductNormArguments& a, float square) {
  return rsqrtf(square / static_cast<float>(a.width) + a.epsilon);
}

template <int N>
__device__ void load_weight(const ProductNormArguments& a, int column, float (&w)[N]) {
  if (a.weight != nullptr) return device::load<N>(a.weight + column, w);
#pragma unroll
  for (int n = 0; n < N; ++n) w[n] = 1;
}

__device__ float gated(float x, float z) {
  return x * (z * device::logistic(z));
}

// y. Forward and backward compute the same bits.
__device__ float normalized(float u, float inverse, float w) {
  return u * inverse * w;
}

template <int N, int R, typename T>
__global__ void __launch_bounds__(kMaxThreads) forward_kernel(const ProductNormArguments a) {
  using Of = device::NormRuns<N, R, T>;
  const std::int64_t row = blockIdx.x / a.num_parts;
  const int begin = static_cast<int>(blockIdx.x % a.num_parts) * a.width;
  const std::int64_t place = row * a.num_parts * a.width + begin;
  const Of x(static_cast<const T*>(a.x) + place, a.width);
  const Of z(static_cast<const T*>(a.z) + row * a.z_stride + begin, a.width);
  float u[R][N];
  float square = 0;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    float gate[N];
    device::unpack(x.values[r], u[r]);
    device::unpack(z.values[r], gate);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      u[r][n] = gated(u[r][n], gate[n]);
      square += u[r][n] * u[r][n];
    }
  }
  const float inverse = a.weight != nullptr ? inverse_rms(a, block_sums({square, 0}).x) : 1;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int column = Of::column(r);
    if (column >= a.width) continue;
    float w[N];
    load_weight<N>(a, begin + column, w);
#pragma unroll
    for (int n = 0; n < N; ++n) u[r][n] = normalized(u[r][n], inverse, w[n]);
    device::store(u[r], static_cast<T*>(a.output) + place + column);
  }
}

// A part of a row in the backward.
template <int N, int R, typename T>
class PartBackward {
 public:
  __device__ PartBackward(const ProductNormArguments& a, std::int64_t row, int begin,
                          const device::ProductNormInputs<N, R, T>& inputs)
      : a_(a),
        row_(row),
        begin_(begin),
        place_(row * a.num_parts * a.width + begin),
        x_(inputs.x),
        z_(inputs.z),
        g_(inputs.g) {}

  // Adds to the thread's sums of the weight's gradient.
  __device__ void run(float (&sums)[R][N]) {
    float inverse = 1;
    float along = 0;
    if (a_.weight != nullptr) {
      float2 parts = {0, 0};  // of u u and of g w u
#pragma unroll
      for (int r = 0; r < R; ++r) add_products(r, parts);
      parts = block_sums(parts);
      inverse = inverse_rms(a_, parts.x);
      along = inverse * inverse * parts.y / static_cast<float>(a_.width);
      device::discard_unpacked(x_.values);
      device::discard_unpacked(z_.values);
      device::discard_unpacked(g_.values);
    }
#pragma unroll
    for (int r = 0; r < R; ++r) write(r, inverse, along, sums[r]);
  }

 private:
  using Of = device::NormRuns<N, R, T>;

  __device__ void unpack(int r, float (&x)[N], float (&z)[N], float (&g)[N], float (&w)[N]) const {
    device::unpack(x_.values[r], x);
    device::unpack(z_.values[r], z);
    device::unpack(g_.values[r], g);
    load_weight<N>(a_, begin_ + Of::column(r), w);
  }

  __device__ void add_products(int r, float2& parts) const {
    if (Of::column(r) >= a_.width) return;
    float x[N];
    float z[N];
    float g[N];
    float w[N];
    unpack(r, x, z, g, w);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float u = gated(x[n], z[n]);
      parts.x += u * u;
      parts.y += g[n] * w[n] * u;
    }
  }

  __device__ void write(int r, float inverse, float along, float (&sums)[N]) const {
    const int column = Of::column(r);
    if (column >= a_.width) return;
    float x[N];
    float z[N];
    float g[N];
    float w[N];
    unpack(r, x, z, g, w);
    float y[N];
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float gate = z[n];
      const float s = device::logistic(gate);
      const float u = gated(x[n], gate);
      const float grad = inverse * (g[n] * w[n] - u * along);
      sums[n] += g[n] * u * inverse;
      y[n] = normalized(u, inverse, w[n]);
      z[n] = grad * x[n] * s * (1.0F + gate * (1.0F - s));
      x[n] = grad * (gate * s);
    }
    device::store(x, static_cast<T*>(a_.output) + place_ + column);
    device::store(z, static_cast<T*>(a_.grad_z) + row_ * a_.grad_z_stride + begin_ + column);
    if (a_.recomputed_output != nullptr) {
      device::store(y, static_cast<T*>(a_.recomputed_output) + place_ + column);
    }
  }

  const ProductNormArguments& a_;
  std::int64_t row_;
  int begin_;
  std::int64_t place_;
  Of x_;
  Of z_;
  Of g_;
};

template <int N, int R, typename T>
__global__ void __launch_bounds__(kMaxThreads) backward_kernel(const ProductNormArguments a) {
  extern __shared__ uint4 slots[];
  const int begin = static_cast<int>(blockIdx.y) * a.width;
  device::ProductNormRows<N, R, T> rows(a, begin, slots);
  float sums[R][N] = {};
  for (std::int64_t row = blockIdx.x; row < a.num_rows; row += gridDim.x) {
    PartBackward<N, R, T>(a, row, begin, rows.take(row)).run(sums);
  }
  if (a.partials == nullptr) return;
  float* const partials = a.partials + std::int64_t{blockIdx.x} * a.num_parts * a.width + begin;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int column = device::NormRuns<N, R, T>::column(r);
    if (column < a.width) device::store(sums[r], partials + column);
  }
}

// Elements of a run, where rows allow vectors of that size.
constexpr int kRun = 8;

bool has_vectors(const ProductNormArguments& a) {
  return a.width % kRun == 0 && a.z_stride % kRun == 0 && a.grad_z_stride % kRun == 0 &&
         are_aligned(16, a.x, a.z, a.grad_output, a.output, a.grad_z, a.recomputed_output,
                     a.weight);
}

int runs_of(const ProductNormArguments& a) {
  const int threads = (a.width + kRun - 1) / kRun;
  return threads <= kMaxThreads ? 1 : threads <= 2 * kMaxThreads ? 2 : 4;
}

// The same for vectors and for single elements, of which a thread has as many.
int threads_of(const ProductNormArguments& a) {
  const int elements = kRun * runs_of(a);
  return ((a.width + elements - 1) / elements + 31) / 32 * 32;
}

template <int N, int R, typename T>
void launch_runs(const ProductNormArguments& a, cudaStream_t stream) {
  const int threads = threads_of(a);
  if (a.grad_output == nullptr) {
    const auto blocks = static_cast<unsigned>(a.num_rows * a.num_parts);
    forward_kernel<N, R, T><<<blocks, threads, 0, stream>>>(a);
  } else {
    const dim3 blocks(static_cast<unsigned>(product_norm_backward_blocks(a)),
                      static_cast<unsigned>(a.num_parts));
    const auto shared = device::ProductNormRows<N, R, T>::kSharedBytesOfThread * threads;
    PACKTRAIN_CUDA_CHECK(cudaFuncSetAttribute(backward_kernel<N, R, T>,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    backward_kernel<N, R, T><<<blocks, threads, shared, stream>>>(a);
  }
}

template <int R, typename T>
void launch_type(const ProductNormArguments& a, cudaStream_t stream) {
  has_vectors(a) ? launch_runs<kRun, R, T>(a, stream) : launch_runs<1, kRun * R, T>(a, stream);
}

template <typename T>
void launch(const ProductNormArguments& a, cudaStream_t stream) {
  const int runs = runs_of(a);
  if (runs == 1) return launch_type<1, T>(a, stream);
  if (runs == 2) return launch_type<2, T>(a, stream);
  launch_type<4, T>(a, stream);
}

}  // namespace

std::int64_t product_norm_backward_blocks(const ProductNormArguments& arguments) {
  const std::int64_t threads = std::int64_t{threads_of(arguments)} * arguments.num_parts;
  return std::clamp<std::int64_t>(kThreadsOfBackward / threads, 1,
                                  std::max<std::int64_t>(arguments.num_rows, 1));
}

void launch_product_norm(const ProductNormArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.dtype == DataType::kBFloat16 ? launch<__nv_bfloat16>(arguments, on)
                                         : launch<float>(arguments, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

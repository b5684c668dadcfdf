// Bound by memory. A warp has one head of one row, whose elements stay in registers. Backward walks
// over heads and keeps sums of the weight's gradient, in a partition that depends on sizes alone.
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/activation/evaluate.cuh"
#include "models/ops/cuda/alignment.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/cuda/warp_sum.cuh"
#include "models/ops/gated_norm/gated_norm_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr std::int64_t kMaxBlocks = 1024;

// y. Forward and backward compute the same bits.
__device__ float gated(float normalized, float w, float u) {
  return normalized * w * u;
}

// A head of a row, for one warp.
struct Place {
  std::int64_t item;    // row * H + head
  std::int64_t x;       // offset of the head in x
  std::int64_t z;       // in z
  std::int64_t grad_z;  // in the gradient of z
};

__device__ Place place_of(const GatedNormArguments& a, std::int64_t item) {
  const std::int64_t row = item / a.num_heads;
  const std::int64_t column = (item - row * a.num_heads) * a.head_dim;
  return {item, item * a.head_dim, row * a.z_stride + column, row * a.grad_z_stride + column};
}

// A lane has R runs of N elements, 32 N apart.
template <int N, int R>
__device__ int column_of(int run) {
  return (static_cast<int>(threadIdx.x % 32) + 32 * run) * N;
}

template <int N, int R, typename T>
__device__ void load_head(const T* from, int head_dim, float (&to)[R][N]) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int column = column_of<N, R>(r);
    if (column < head_dim) {
      device::load<N>(from + column, to[r]);
    } else {
#pragma unroll
      for (int n = 0; n < N; ++n) to[r][n] = 0;
    }
  }
}

template <int N, int R, typename T>
__device__ void store_head(const float (&from)[R][N], int head_dim, T* to) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int column = column_of<N, R>(r);
    if (column < head_dim) device::store(from[r], to + column);
  }
}

template <int N, int R, typename T>
__global__ void __launch_bounds__(kThreads) gated_norm_forward_kernel(const GatedNormArguments a) {
  const std::int64_t item = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (item >= a.num_rows * a.num_heads) return;
  const Place place = place_of(a, item);
  float x[R][N];
  float z[R][N];
  float w[R][N];
  load_head<N, R>(static_cast<const T*>(a.x) + place.x, a.head_dim, x);
  load_head<N, R>(static_cast<const T*>(a.z) + place.z, a.head_dim, z);
  load_head<N, R>(a.weight, a.head_dim, w);
  float square = 0;
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) square += x[r][n] * x[r][n];
  }
  const float inverse =
      rsqrtf(device::warp_sum(square) / static_cast<float>(a.head_dim) + a.epsilon);
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      x[r][n] = gated(x[r][n] * inverse, w[r][n], z[r][n] * device::logistic(z[r][n]));
    }
  }
  store_head<N, R>(x, a.head_dim, static_cast<T*>(a.output) + place.x);
  if (threadIdx.x % 32 == 0) a.inverse_rms[item] = inverse;
}

// The gradients of one head. Adds to the lane's sums of the weight's gradient.
template <int N, int R, typename T>
__device__ void head_backward(const GatedNormArguments& a, std::int64_t item,
                              const float (&w)[R][N], float (&sums)[R][N]) {
  const Place place = place_of(a, item);
  float x[R][N];
  float z[R][N];
  float g[R][N];
  load_head<N, R>(static_cast<const T*>(a.x) + place.x, a.head_dim, x);
  load_head<N, R>(static_cast<const T*>(a.z) + place.z, a.head_dim, z);
  load_head<N, R>(static_cast<const T*>(a.grad_output) + place.x, a.head_dim, g);
  const float inverse = a.inverse_rms[item];
  float y[R][N];
  float along = 0;
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float s = device::logistic(z[r][n]);
      const float u = z[r][n] * s;
      const float slope = s * (1.0F + z[r][n] * (1.0F - s));
      x[r][n] *= inverse;
      const float product = g[r][n] * x[r][n];
      sums[r][n] += product * u;
      z[r][n] = product * w[r][n] * slope;
      y[r][n] = gated(x[r][n], w[r][n], u);
      g[r][n] *= w[r][n] * u;
      along += g[r][n] * x[r][n];
    }
  }
  along = device::warp_sum(along) / static_cast<float>(a.head_dim);
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) g[r][n] = inverse * (g[r][n] - x[r][n] * along);
  }
  store_head<N, R>(g, a.head_dim, static_cast<T*>(a.output) + place.x);
  store_head<N, R>(z, a.head_dim, static_cast<T*>(a.grad_z) + place.grad_z);
  if (a.recomputed_output != nullptr) {
    store_head<N, R>(y, a.head_dim, static_cast<T*>(a.recomputed_output) + place.x);
  }
}

template <int N, int R, typename T>
__global__ void __launch_bounds__(kThreads) gated_norm_backward_kernel(const GatedNormArguments a) {
  __shared__ float of_warps[kWarps][32 * N * R];
  float w[R][N];
  float sums[R][N] = {};
  load_head<N, R>(a.weight, a.head_dim, w);
  const std::int64_t num_items = a.num_rows * a.num_heads;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (std::int64_t item = std::int64_t{blockIdx.x} * kWarps + warp; item < num_items;
       item += std::int64_t{gridDim.x} * kWarps) {
    head_backward<N, R, T>(a, item, w, sums);
  }
  if (a.partials == nullptr) return;
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) of_warps[warp][column_of<N, R>(r) + n] = sums[r][n];
  }
  __syncthreads();
  for (int column = static_cast<int>(threadIdx.x); column < a.head_dim; column += kThreads) {
    float sum = 0;
    for (int other = 0; other < kWarps; ++other) sum += of_warps[other][column];
    a.partials[std::int64_t{blockIdx.x} * a.head_dim + column] = sum;
  }
}

template <int N, int R, typename T>
void launch_runs(const GatedNormArguments& a, cudaStream_t stream) {
  const std::int64_t num_items = a.num_rows * a.num_heads;
  if (a.grad_output == nullptr) {
    const auto blocks = static_cast<unsigned>((num_items + kWarps - 1) / kWarps);
    gated_norm_forward_kernel<N, R, T><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    const auto blocks = static_cast<unsigned>(gated_norm_backward_blocks(a));
    gated_norm_backward_kernel<N, R, T><<<blocks, kThreads, 0, stream>>>(a);
  }
}

template <int N, typename T>
void launch_vectors(const GatedNormArguments& a, cudaStream_t stream) {
  const int runs = (a.head_dim + 32 * N - 1) / (32 * N);
  if (runs == 1) return launch_runs<N, 1, T>(a, stream);
  if (runs == 2) return launch_runs<N, 2, T>(a, stream);
  if (runs <= 4) return launch_runs<N, 4, T>(a, stream);
  if (runs <= 8) return launch_runs<N, 8, T>(a, stream);
  if constexpr (N == 1) return launch_runs<N, 32, T>(a, stream);
}

template <typename T>
void launch_type(const GatedNormArguments& a, cudaStream_t stream) {
  constexpr int kRun = 4;
  const bool vectors = a.head_dim % kRun == 0 && a.z_stride % kRun == 0 &&
                       a.grad_z_stride % kRun == 0 &&
                       are_aligned(kRun * sizeof(T), a.x, a.z, a.grad_output, a.output, a.grad_z,
                                   a.recomputed_output) &&
                       are_aligned(16, a.weight);
  if (vectors) return launch_vectors<kRun, T>(a, stream);
  launch_vectors<1, T>(a, stream);
}

}  // namespace

std::int64_t gated_norm_backward_blocks(const GatedNormArguments& arguments) {
  const std::int64_t num_items = arguments.num_rows * arguments.num_heads;
  return std::min((num_items + kWarps - 1) / kWarps, kMaxBlocks);
}

void launch_gated_norm(const GatedNormArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.dtype == DataType::kBFloat16 ? launch_type<__nv_bfloat16>(arguments, on)
                                         : launch_type<float>(arguments, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

// Bound by memory. Two kernels run one after another, and a block of each has whole rows. In the
// first each warp has one head of queries or keys after another; backward also copies the gradient
// of values. In the second each thread has decays and strengths of heads of values. Backward keeps
// their sums over rows, in a partition that depends on the number of rows alone.
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/activation/evaluate.cuh"
#include "models/ops/cuda/alignment.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/cuda/warp_sum.cuh"
#include "models/ops/delta_gates/delta_gates_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kHeadsPerThread = kDeltaGatesMaxHeads / kThreads;
constexpr std::int64_t kMaxBlocks = 2048;
constexpr float kLengthEpsilon = 1e-6F;

// As torch: x itself above 20.
__device__ float softplus(float x) {
  return x > 20.0F ? x : log1pf(expf(x));
}

// 1 / sqrt(sum of squares + epsilon) of a head, returned to all lanes.
template <int N, typename T>
__device__ float inverse_length(const T* head, int head_dim) {
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x % 32) * N; i < head_dim; i += 32 * N) {
    float x[N];
    device::load<N>(head + i, x);
#pragma unroll
    for (int n = 0; n < N; ++n) sum += x[n] * x[n];
  }
  return rsqrtf(device::warp_sum(sum) + kLengthEpsilon);
}

template <int N, typename T>
__device__ void forward_head(const T* head, T* unit, int head_dim) {
  const float inverse = inverse_length<N>(head, head_dim);
  for (int i = static_cast<int>(threadIdx.x % 32) * N; i < head_dim; i += 32 * N) {
    float x[N];
    device::load<N>(head + i, x);
#pragma unroll
    for (int n = 0; n < N; ++n) x[n] *= inverse;
    device::store(x, unit + i);
  }
}

template <int N, typename T>
__device__ void backward_head(const T* head, const T* grad_unit, T* grad, int head_dim) {
  const float inverse = inverse_length<N>(head, head_dim);
  float along = 0;
  for (int i = static_cast<int>(threadIdx.x % 32) * N; i < head_dim; i += 32 * N) {
    float x[N];
    float g[N];
    device::load<N>(head + i, x);
    device::load<N>(grad_unit + i, g);
#pragma unroll
    for (int n = 0; n < N; ++n) along += x[n] * g[n];
  }
  along = device::warp_sum(along) * inverse * inverse;
  for (int i = static_cast<int>(threadIdx.x % 32) * N; i < head_dim; i += 32 * N) {
    float x[N];
    float g[N];
    device::load<N>(head + i, x);
    device::load<N>(grad_unit + i, g);
#pragma unroll
    for (int n = 0; n < N; ++n) g[n] = (g[n] - x[n] * along) * inverse;
    device::store(g, grad + i);
  }
}

template <int N, typename T>
__device__ void row_of_heads(const DeltaGatesArguments& a, std::int64_t row) {
  const std::int64_t width = std::int64_t{a.num_key_heads} * a.key_head_dim;
  const T* mixed = static_cast<const T*>(a.mixed) + row * a.mixed_stride;
  for (int head = static_cast<int>(threadIdx.x) / 32; head < 2 * a.num_key_heads; head += kWarps) {
    const bool is_key = head >= a.num_key_heads;
    const int index = is_key ? head - a.num_key_heads : head;
    const std::int64_t place = row * width + std::int64_t{index} * a.key_head_dim;
    T* unit = static_cast<T*>(is_key ? a.k : a.q) + place;
    const std::int64_t begin = std::int64_t{head} * a.key_head_dim;
    if (a.grad_mixed == nullptr) {
      forward_head<N>(mixed + begin, unit, a.key_head_dim);
    } else {
      T* grad = static_cast<T*>(a.grad_mixed) + row * (2 * width + a.value_width);
      backward_head<N>(mixed + begin, unit, grad + begin, a.key_head_dim);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) forward_kernel_gates(const DeltaGatesArguments a) {
  const T* ba = static_cast<const T*>(a.ba);
  for (std::int64_t row = blockIdx.x; row < a.num_rows; row += gridDim.x) {
    for (int h = static_cast<int>(threadIdx.x); h < a.num_heads; h += kThreads) {
      const T* gates = ba + row * 2 * a.num_heads + h;
      const float x = device::to_float(gates[a.num_heads]) + a.dt_bias[h];
      a.g[row * a.num_heads + h] = -expf(a.a_log[h]) * softplus(x);
      a.beta[row * a.num_heads + h] =
          a.beta_multiplier * device::logistic(device::to_float(gates[0]));
    }
  }
}

template <typename T>
__device__ void backward_gate(const DeltaGatesArguments& a, std::int64_t row, int h,
                              float (&sums)[2]) {
  const T* gates = static_cast<const T*>(a.ba) + row * 2 * a.num_heads + h;
  T* grads = static_cast<T*>(a.grad_ba) + row * 2 * a.num_heads + h;
  const float rate = -expf(a.a_log[h]);
  const float x = device::to_float(gates[a.num_heads]) + a.dt_bias[h];
  const float grad_g = a.g[row * a.num_heads + h] * rate;
  const float grad_a = grad_g * device::logistic(x);
  const float s = device::logistic(device::to_float(gates[0]));
  const float grad_beta = a.beta[row * a.num_heads + h];
  grads[0] = device::from_float<T>(grad_beta * a.beta_multiplier * s * (1.0F - s));
  grads[a.num_heads] = device::from_float<T>(grad_a);
  sums[0] += grad_g * softplus(x);
  sums[1] += grad_a;
}

template <int N, typename T>
__device__ void copy_values(const DeltaGatesArguments& a, std::int64_t row) {
  const std::int64_t keys = 2 * std::int64_t{a.num_key_heads} * a.key_head_dim;
  const T* from = static_cast<const T*>(a.grad_v) + row * a.value_width;
  T* to = static_cast<T*>(a.grad_mixed) + row * (keys + a.value_width) + keys;
  for (std::int64_t i = std::int64_t{threadIdx.x} * N; i < a.value_width; i += kThreads * N) {
    device::store_vec(device::load_vec<N>(from + i), to + i);
  }
}

template <int N, typename T>
__global__ void __launch_bounds__(kThreads) heads_kernel(const DeltaGatesArguments a) {
  for (std::int64_t row = blockIdx.x; row < a.num_rows; row += gridDim.x) {
    row_of_heads<N, T>(a, row);
    if (a.grad_mixed != nullptr) copy_values<N, T>(a, row);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) backward_kernel_gates(const DeltaGatesArguments a) {
  float sums[kHeadsPerThread][2] = {};
  for (std::int64_t row = blockIdx.x; row < a.num_rows; row += gridDim.x) {
#pragma unroll
    for (int i = 0; i < kHeadsPerThread; ++i) {
      const int h = static_cast<int>(threadIdx.x) + i * kThreads;
      if (h < a.num_heads) backward_gate<T>(a, row, h, sums[i]);
    }
  }
  if (a.partials == nullptr) return;
#pragma unroll
  for (int i = 0; i < kHeadsPerThread; ++i) {
    const int h = static_cast<int>(threadIdx.x) + i * kThreads;
    if (h >= a.num_heads) continue;
    float* partials = a.partials + std::int64_t{blockIdx.x} * 2 * a.num_heads + h;
    partials[0] = sums[i][0];
    partials[a.num_heads] = sums[i][1];
  }
}

template <typename T>
void launch_type(const DeltaGatesArguments& a, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(delta_gates_backward_blocks(a));
  constexpr int kRun = 4;  // elements of a thread
  constexpr std::int64_t kBytes = kRun * sizeof(T);
  const bool vectors = a.key_head_dim % kRun == 0 && a.mixed_stride % kRun == 0 &&
                       a.value_width % kRun == 0 &&
                       are_aligned(kBytes, a.mixed, a.q, a.k, a.grad_v, a.grad_mixed);
  if (vectors) {
    heads_kernel<kRun, T><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    heads_kernel<1, T><<<blocks, kThreads, 0, stream>>>(a);
  }
  if (a.grad_mixed == nullptr) {
    forward_kernel_gates<T><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    backward_kernel_gates<T><<<blocks, kThreads, 0, stream>>>(a);
  }
}

}  // namespace

std::int64_t delta_gates_backward_blocks(const DeltaGatesArguments& arguments) {
  return std::min(arguments.num_rows, kMaxBlocks);
}

void launch_delta_gates(const DeltaGatesArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.dtype == DataType::kBFloat16 ? launch_type<__nv_bfloat16>(arguments, on)
                                         : launch_type<float>(arguments, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

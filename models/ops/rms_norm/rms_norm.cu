// One block a row; the row's second reading comes from the cache.
//   r = 1 / sqrt(mean(x^2) + epsilon);  y = x r w
//   dx = r (g w - x r mean(g w x r));   dw = sum over rows of g x r
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/rms_norm/rms_norm_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) forward_kernel(const RmsNormArguments a) {
  __shared__ float scratch[32];
  const std::int64_t row = blockIdx.x;
  const T* x = static_cast<const T*>(a.x) + row * a.hidden;
  const T* weight = static_cast<const T*>(a.weight);
  T* y = static_cast<T*>(a.output) + row * a.hidden;
  float values[N];
  float sum = 0;
  for (std::int64_t c = threadIdx.x * N; c < a.hidden; c += kThreads * N) {
    device::load(x + c, values);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += values[i] * values[i];
  }
  sum = device::block_sum(sum, scratch);
  const float inverse_rms = rsqrtf(sum / static_cast<float>(a.hidden) + a.epsilon);
  if (threadIdx.x == 0) a.inverse_rms[row] = inverse_rms;
  for (std::int64_t c = threadIdx.x * N; c < a.hidden; c += kThreads * N) {
    float w[N];
    device::load(x + c, values);
    device::load(weight + c, w);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] *= inverse_rms * w[i];
    device::store(values, y + c);
  }
}

// Adds g x r of one row to the block's sums and returns the row's sum of g w x r. A thread meets
// the same columns in every row, so the sums need no atomics; they lie transposed in runs, so that
// neighbours meet neighbouring banks.
template <typename T, int N>
__device__ float first_pass(const RmsNormArguments& a, const T* x, const T* grad, float inverse_rms,
                            float* sums) {
  const std::int64_t num_runs = a.hidden / N;
  float product = 0;
  for (std::int64_t run = threadIdx.x; run < num_runs; run += kThreads) {
    float values[N];
    float g[N];
    float w[N];
    device::load(x + run * N, values);
    device::load(grad + run * N, g);
    device::load(static_cast<const T*>(a.weight) + run * N, w);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float gx = g[i] * values[i] * inverse_rms;
      product += gx * w[i];
      if (a.weight_sums != nullptr) sums[i * num_runs + run] += gx;
    }
  }
  return product;
}

template <typename T, int N>
__device__ void second_pass(const RmsNormArguments& a, const T* x, const T* grad, float inverse_rms,
                            float mean, T* dx) {
  for (std::int64_t c = threadIdx.x * N; c < a.hidden; c += kThreads * N) {
    float values[N];
    float g[N];
    float w[N];
    device::load(x + c, values);
    device::load(grad + c, g);
    device::load(static_cast<const T*>(a.weight) + c, w);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      values[i] = inverse_rms * (g[i] * w[i] - values[i] * inverse_rms * mean);
    }
    device::store(values, dx + c);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) backward_kernel(const RmsNormArguments a) {
  __shared__ float scratch[32];
  extern __shared__ float sums[];  // [hidden] when dw is wanted
  const std::int64_t num_runs = a.hidden / N;
  if (a.weight_sums != nullptr) {
    for (std::int64_t run = threadIdx.x; run < num_runs; run += kThreads) {
      for (int i = 0; i < N; ++i) sums[i * num_runs + run] = 0;
    }
  }
  for (std::int64_t row = blockIdx.x; row < a.num_rows; row += gridDim.x) {
    const T* x = static_cast<const T*>(a.x) + row * a.hidden;
    const T* grad = static_cast<const T*>(a.grad_output) + row * a.hidden;
    const float inverse_rms = a.inverse_rms[row];
    const float product = first_pass<T, N>(a, x, grad, inverse_rms, sums);
    const float mean = device::block_sum(product, scratch) / static_cast<float>(a.hidden);
    second_pass<T, N>(a, x, grad, inverse_rms, mean, static_cast<T*>(a.output) + row * a.hidden);
  }
  if (a.weight_sums == nullptr) return;
  float* out = a.weight_sums + blockIdx.x * a.hidden;
  for (std::int64_t run = threadIdx.x; run < num_runs; run += kThreads) {
    for (int i = 0; i < N; ++i) out[run * N + i] = sums[i * num_runs + run];
  }
}

template <typename T, int N>
void launch_backward(const RmsNormArguments& a, cudaStream_t stream) {
  const std::size_t shared_bytes = a.weight_sums == nullptr ? 0 : a.hidden * sizeof(float);
  constexpr std::size_t kDefaultSharedBytes = 48 * 1024;
  if (shared_bytes > kDefaultSharedBytes - 1024) {
    PACKTRAIN_CUDA_CHECK(cudaFuncSetAttribute(backward_kernel<T, N>,
                                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(shared_bytes)));
  }
  backward_kernel<T, N><<<static_cast<unsigned>(a.num_blocks), kThreads, shared_bytes, stream>>>(a);
}

template <typename T>
void launch(const RmsNormArguments& a, cudaStream_t stream) {
  constexpr int kRun = 16 / sizeof(T);
  const bool vectors = can_vectorize(a.hidden, sizeof(T), a.x, a.weight, a.grad_output, a.output);
  const auto rows = static_cast<unsigned>(a.num_rows);
  if (a.grad_output == nullptr && vectors) {
    forward_kernel<T, kRun><<<rows, kThreads, 0, stream>>>(a);
  } else if (a.grad_output == nullptr) {
    forward_kernel<T, 1><<<rows, kThreads, 0, stream>>>(a);
  } else if (vectors) {
    launch_backward<T, kRun>(a, stream);
  } else {
    launch_backward<T, 1>(a, stream);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_rms_norm(const RmsNormArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  if (arguments.bfloat16) {
    launch<__nv_bfloat16>(arguments, static_cast<cudaStream_t>(stream));
  } else {
    launch<float>(arguments, static_cast<cudaStream_t>(stream));
  }
}

}  // namespace packtrain

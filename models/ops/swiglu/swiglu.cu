// Elementwise, bound by memory: each thread takes runs of 16 bytes of gate and up.
//   y = gate s(gate) up;  d gate = g up s (1 + gate (1 - s));  d up = g gate s
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/swiglu/swiglu_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;

__device__ float logistic(float z) {
  return 1.0F / (1.0F + __expf(-z));
}

template <typename T, int N>
__device__ void forward(const T* row, std::int64_t column, const SwigluArguments& a, T* y) {
  float gate[N];
  float up[N];
  device::load(row + column, gate);
  device::load(row + a.inner + column, up);
#pragma unroll
  for (int i = 0; i < N; ++i) gate[i] = gate[i] * logistic(gate[i]) * up[i];
  device::store(gate, y + column);
}

template <typename T, int N>
__device__ void backward(const T* row, std::int64_t column, const SwigluArguments& a, const T* grad,
                         T* d_row) {
  float gate[N];
  float up[N];
  float g[N];
  device::load(row + column, gate);
  device::load(row + a.inner + column, up);
  device::load(grad + column, g);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float s = logistic(gate[i]);
    const float silu = gate[i] * s;
    gate[i] = g[i] * up[i] * (s + silu * (1.0F - s));
    up[i] = g[i] * silu;
  }
  device::store(gate, d_row + column);
  device::store(up, d_row + a.inner + column);
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) swiglu_kernel(const SwigluArguments a) {
  const std::int64_t runs_a_row = a.inner / N;
  const std::int64_t num_runs = a.num_rows * runs_a_row;
  const std::int64_t stride = std::int64_t{kThreads} * gridDim.x;
  for (std::int64_t i = std::int64_t{kThreads} * blockIdx.x + threadIdx.x; i < num_runs;
       i += stride) {
    const std::int64_t row = i / runs_a_row;
    const std::int64_t column = (i - row * runs_a_row) * N;
    const T* in = static_cast<const T*>(a.gate_up) + row * 2 * a.inner;
    if (a.grad_output == nullptr) {
      forward<T, N>(in, column, a, static_cast<T*>(a.output) + row * a.inner);
    } else {
      backward<T, N>(in, column, a, static_cast<const T*>(a.grad_output) + row * a.inner,
                     static_cast<T*>(a.output) + row * 2 * a.inner);
    }
  }
}

template <typename T>
void launch(const SwigluArguments& a, cudaStream_t stream) {
  constexpr int kRun = 16 / sizeof(T);
  constexpr std::int64_t kMostBlocks = 1 << 20;
  const bool vectors = can_vectorize(a.inner, sizeof(T), a.gate_up, a.grad_output, a.output);
  const std::int64_t num_runs = a.num_rows * (vectors ? a.inner / kRun : a.inner);
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>((num_runs + kThreads - 1) / kThreads, 1, kMostBlocks));
  if (vectors) {
    swiglu_kernel<T, kRun><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    swiglu_kernel<T, 1><<<blocks, kThreads, 0, stream>>>(a);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_swiglu(const SwigluArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  if (arguments.bfloat16) {
    launch<__nv_bfloat16>(arguments, static_cast<cudaStream_t>(stream));
  } else {
    launch<float>(arguments, static_cast<cudaStream_t>(stream));
  }
}

}  // namespace packtrain

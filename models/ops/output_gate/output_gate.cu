// Elementwise and bound by memory. A thread has one vector of each input.
#include "framework/device/cuda/check.h"
#include "models/ops/activation/evaluate.cuh"
#include "models/ops/cuda/divisor.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/output_gate/output_gate_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;

template <typename T, int N>
__device__ void gate_forward(const OutputGateArguments& a, std::int64_t at, std::int64_t at_z) {
  float x[N];
  float z[N];
  device::load<N>(static_cast<const T*>(a.x) + at, x);
  device::load<N>(static_cast<const T*>(a.z) + at_z, z);
#pragma unroll
  for (int n = 0; n < N; ++n) x[n] *= device::logistic(z[n]);
  device::store(x, static_cast<T*>(a.output) + at);
}

template <typename T, int N>
__device__ void gate_backward(const OutputGateArguments& a, std::int64_t at, std::int64_t at_z,
                              std::int64_t at_grad) {
  float x[N];
  float z[N];
  float g[N];
  device::load<N>(static_cast<const T*>(a.x) + at, x);
  device::load<N>(static_cast<const T*>(a.z) + at_z, z);
  device::load<N>(static_cast<const T*>(a.grad_output) + at, g);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float s = device::logistic(z[n]);
    x[n] *= s;
    z[n] = g[n] * x[n] * (1.0F - s);
    g[n] *= s;
  }
  device::store(g, static_cast<T*>(a.output) + at);
  device::store(z, static_cast<T*>(a.grad_z) + at_grad);
  if (a.recomputed_output != nullptr) {
    device::store(x, static_cast<T*>(a.recomputed_output) + at);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    output_gate_kernel(const OutputGateArguments a, const device::Divisor vectors_per_row,
                       const std::int64_t num_vectors) {
  const std::int64_t vector = std::int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (vector >= num_vectors) return;
  const std::int64_t row = vectors_per_row.quotient(vector);
  const std::int64_t column = vector * N - row * a.width;
  if (a.grad_output == nullptr) {
    gate_forward<T, N>(a, vector * N, row * a.z_stride + column);
  } else {
    gate_backward<T, N>(a, vector * N, row * a.z_stride + column, row * a.grad_z_stride + column);
  }
}

template <typename T, int N>
void launch_vectors(const OutputGateArguments& a, cudaStream_t stream) {
  const std::int64_t vectors_per_row = a.width / N;
  const std::int64_t num_vectors = a.num_rows * vectors_per_row;
  const auto blocks = static_cast<unsigned>((num_vectors + kThreads - 1) / kThreads);
  output_gate_kernel<T, N>
      <<<blocks, kThreads, 0, stream>>>(a, device::Divisor(vectors_per_row), num_vectors);
}

template <typename T>
void launch_type(const OutputGateArguments& a, cudaStream_t stream) {
  const bool vectors = can_vectorize(a.width, sizeof(T), a.x, a.z, a.grad_output, a.output,
                                     a.grad_z, a.recomputed_output) &&
                       can_vectorize(a.z_stride, sizeof(T)) &&
                       can_vectorize(a.grad_z_stride, sizeof(T));
  if (vectors) return launch_vectors<T, 16 / sizeof(T)>(a, stream);
  launch_vectors<T, 1>(a, stream);
}

}  // namespace

void launch_output_gate(const OutputGateArguments& arguments, void* stream) {
  if (arguments.num_rows == 0 || arguments.width == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.dtype == DataType::kBFloat16 ? launch_type<__nv_bfloat16>(arguments, on)
                                         : launch_type<float>(arguments, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

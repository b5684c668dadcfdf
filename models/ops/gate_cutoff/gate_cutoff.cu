// Bound by memory. A block of threads has a row. It reads the gates once from memory and again from
// the cache. Sums are of one block in a fixed order.
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/alignment.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/gate_cutoff/gate_cutoff_launch.h"

namespace packtrain {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kRun = 8;  // elements of a thread's access, where rows allow it

// Calls work(column) for the runs of N columns of this thread.
template <int N, class Work>
__device__ void for_runs(int inner, const Work& work) {
  const int step = static_cast<int>(blockDim.x) * N;
  for (int column = static_cast<int>(threadIdx.x) * N; column < inner; column += step) work(column);
}

struct Cutoff {
  float mean;
  float deviation;
  float quantile;

  __device__ float above(float gate) const { return gate - mean - quantile * deviation; }
};

// All threads of the block call it. `scratch` is that of block_sum().
template <int N, typename T>
__device__ Cutoff cutoff_of(const T* gates, const GateCutoffArguments& a, float* scratch) {
  const auto count = static_cast<float>(a.inner);
  float sum = 0;
  for_runs<N>(a.inner, [&](int column) {
    float gate[N];
    device::load<N>(gates + column, gate);
#pragma unroll
    for (int n = 0; n < N; ++n) sum += gate[n];
  });
  const float mean = device::block_sum(sum, scratch) / count;
  float squares = 0;
  for_runs<N>(a.inner, [&](int column) {
    float gate[N];
    device::load<N>(gates + column, gate);
#pragma unroll
    for (int n = 0; n < N; ++n) squares += (gate[n] - mean) * (gate[n] - mean);
  });
  return {mean, sqrtf(device::block_sum(squares, scratch) / count), a.quantile};
}

template <int N, typename T>
__global__ void __launch_bounds__(kMaxThreads) forward_kernel(const GateCutoffArguments a) {
  __shared__ float scratch[32];
  const std::int64_t offset = std::int64_t{blockIdx.x} * 2 * a.inner;
  const T* const x = static_cast<const T*>(a.x) + offset;
  T* const y = static_cast<T*>(a.output) + offset;
  const Cutoff cutoff = cutoff_of<N>(x, a, scratch);
  for_runs<N>(a.inner, [&](int column) {
    float gate[N];
    device::load<N>(x + column, gate);
#pragma unroll
    for (int n = 0; n < N; ++n) gate[n] = fmaxf(cutoff.above(gate[n]), 0.0F);
    device::store(gate, y + column);
    device::store_vec(device::load_vec<N>(x + a.inner + column), y + a.inner + column);
  });
}

// A run of gates, and the gradients of those that are above the cutoff; 0 for the others.
template <int N, typename T>
__device__ void load_passed(const Cutoff& cutoff, const T* gates, const T* grads, float (&gate)[N],
                            float (&passed)[N]) {
  device::load<N>(gates, gate);
  device::load<N>(grads, passed);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    if (!(cutoff.above(gate[n]) > 0)) passed[n] = 0;
  }
}

template <int N, typename T>
__global__ void __launch_bounds__(kMaxThreads) backward_kernel(const GateCutoffArguments a) {
  __shared__ float scratch[32];
  const std::int64_t offset = std::int64_t{blockIdx.x} * 2 * a.inner;
  const T* const x = static_cast<const T*>(a.x) + offset;
  T* const grad = static_cast<T*>(a.grad) + offset;
  const Cutoff cutoff = cutoff_of<N>(x, a, scratch);
  float sum = 0;
  for_runs<N>(a.inner, [&](int column) {
    float gate[N];
    float passed[N];
    load_passed(cutoff, x + column, grad + column, gate, passed);
#pragma unroll
    for (int n = 0; n < N; ++n) sum += passed[n];
  });
  const float of_cutoff = -device::block_sum(sum, scratch) / static_cast<float>(a.inner);
  const float along = cutoff.deviation > 0 ? of_cutoff * a.quantile / cutoff.deviation : 0.0F;
  for_runs<N>(a.inner, [&](int column) {
    float gate[N];
    float passed[N];
    load_passed(cutoff, x + column, grad + column, gate, passed);
#pragma unroll
    for (int n = 0; n < N; ++n) passed[n] += (gate[n] - cutoff.mean) * along + of_cutoff;
    device::store(passed, grad + column);
  });
}

template <int N, typename T>
void launch_runs(const GateCutoffArguments& a, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(a.num_rows);
  const int warps = (a.inner + 32 * kRun - 1) / (32 * kRun);
  const int threads = std::min(32 * warps, kMaxThreads);
  if (a.grad == nullptr) {
    forward_kernel<N, T><<<blocks, threads, 0, stream>>>(a);
  } else {
    backward_kernel<N, T><<<blocks, threads, 0, stream>>>(a);
  }
}

template <typename T>
void launch_type(const GateCutoffArguments& a, cudaStream_t stream) {
  const bool vectors = a.inner % kRun == 0 && are_aligned(16, a.x, a.output, a.grad);
  vectors ? launch_runs<kRun, T>(a, stream) : launch_runs<1, T>(a, stream);
}

}  // namespace

void launch_gate_cutoff(const GateCutoffArguments& arguments, void* stream) {
  if (arguments.num_rows == 0 || arguments.inner == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.dtype == DataType::kBFloat16 ? launch_type<__nv_bfloat16>(arguments, on)
                                         : launch_type<float>(arguments, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

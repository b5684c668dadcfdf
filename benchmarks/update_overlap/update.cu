#include <cuda_bf16.h>

#include "benchmarks/update_overlap/update.h"
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"

namespace packtrain {
namespace {

constexpr int kVec = 4;
constexpr int kThreads = 256;
constexpr int kManyThreads = 1024;  // x 64 registers: all of a multiprocessor
constexpr int kVectorsInFlight = 2;

struct Vectors {
  float g[kVec];
  float w[kVec];
  float m[kVec];
  float v[kVec];

  __device__ void load(const UpdatedRange& r, std::int64_t i) {
    device::load(static_cast<const __nv_bfloat16*>(r.grad) + i, g);
    device::load(r.master + i, w);
    device::load(r.exp_avg + i, m);
    device::load(r.exp_avg_sq + i, v);
  }
  __device__ void update_and_store(const UpdatedRange& r, std::int64_t i) {
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      m[k] = 0.9F * m[k] + 0.1F * g[k];
      v[k] = 0.95F * v[k] + 0.05F * g[k] * g[k];
      w[k] = w[k] * 0.9999F - 1e-6F * m[k] / (sqrtf(v[k]) + 1e-8F);
    }
    device::store(w, r.master + i);
    device::store(m, r.exp_avg + i);
    device::store(v, r.exp_avg_sq + i);
    device::store(w, static_cast<__nv_bfloat16*>(r.weight) + i);
  }
};

__global__ void __launch_bounds__(kThreads) all_kernel(const UpdatedRange r) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVec;
  if (i >= r.numel) return;
  Vectors vectors;
  vectors.load(r, i);
  vectors.update_and_store(r, i);
}

__global__ void __launch_bounds__(kManyThreads, 1) few_kernel(const UpdatedRange r) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kManyThreads * kVec;
  std::int64_t i = (std::int64_t{blockIdx.x} * kManyThreads + threadIdx.x) * kVec;
  for (; i < r.numel; i += kVectorsInFlight * stride) {
    Vectors vectors[kVectorsInFlight];
#pragma unroll
    for (int u = 0; u < kVectorsInFlight; ++u) {
      if (i + u * stride < r.numel) vectors[u].load(r, i + u * stride);
    }
#pragma unroll
    for (int u = 0; u < kVectorsInFlight; ++u) {
      if (i + u * stride < r.numel) vectors[u].update_and_store(r, i + u * stride);
    }
  }
}

}  // namespace

UpdatedRange UpdatedRange::part(std::int64_t begin, std::int64_t count) const {
  return {static_cast<const __nv_bfloat16*>(grad) + begin,
          master + begin,
          exp_avg + begin,
          exp_avg_sq + begin,
          static_cast<__nv_bfloat16*>(weight) + begin,
          count};
}

void update_on_all(const UpdatedRange& range, cudaStream_t stream) {
  const std::int64_t per_block = std::int64_t{kThreads} * kVec;
  const auto blocks = static_cast<unsigned>((range.numel + per_block - 1) / per_block);
  all_kernel<<<blocks, kThreads, 0, stream>>>(range);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

void update_on_few(const UpdatedRange& range, int num_multiprocessors, cudaStream_t stream) {
  few_kernel<<<num_multiprocessors, kManyThreads, 0, stream>>>(range);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

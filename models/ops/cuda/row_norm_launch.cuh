// Chooses and launches the kernels of RMSNorm and (kCentered) LayerNorm.
#pragma once

#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/row_norm_backward.cuh"
#include "models/ops/cuda/row_norm_wide.cuh"

namespace packtrain {

// How threads lie over rows. `threads` 0: the row does not fit registers.
struct RowGeometry {
  int threads = 0;  // a row
  int rows = 1;     // a block
};

// `runs` of 16 bytes a row, `held` of them by a thread, `block_threads` wanted. `one_row`: no more
// than that a block, where a row is several warps.
inline RowGeometry row_geometry(std::int64_t runs, int held, int block_threads, bool one_row) {
  const std::int64_t wanted = (runs + held - 1) / held;
  if (wanted > device::kNormMostThreads) return {};
  int threads = 4;
  while (threads < wanted && threads < 32) threads *= 2;
  if (wanted > 32) threads = static_cast<int>((wanted + 31) / 32 * 32);
  if (one_row && threads > 32) return {threads, 1};
  return {threads, std::max(1, block_threads / threads)};
}

constexpr int kNormRuns = 4;  // of 16 bytes of a row that a thread holds
constexpr int kForwardBlockThreads = 128;

inline bool norm_is_vectorized(const NormArguments& a) {
  return can_vectorize(a.hidden, a.bfloat16 ? 2 : 4, a.x, a.weight, a.bias, a.residual,
                       a.grad_output, a.output, a.sum, a.remade_y);
}

inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

struct BackwardPlan {
  RowGeometry geometry;
  std::size_t shared_bytes = 0;
  std::int64_t num_blocks = 0;
};

// Shared memory of a block of these threads: weights and rows under way, or sums.
inline std::size_t backward_shared_bytes(const NormArguments& a, const RowGeometry& geometry) {
  constexpr std::size_t kRunBytes = 16;
  const std::size_t element_bytes = a.bfloat16 ? 2 : 4;
  const std::size_t num_threads = geometry.threads * geometry.rows;
  const std::size_t num_inputs = a.residual == nullptr ? 2 : 3;
  const std::size_t rows = device::kNormStages * num_inputs * kNormRuns * kRunBytes * num_threads;
  const std::size_t sums =
      kNormRuns * kRunBytes / element_bytes * (num_threads + 4) * sizeof(float);
  return std::max(a.hidden * element_bytes + rows, sums);
}

// One block a multiprocessor, as wide as its shared memory allows.
inline BackwardPlan backward_plan(const NormArguments& a) {
  constexpr int kWideBlocksPerMultiprocessor = 4;
  const auto most_bytes =
      static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  const int num_multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount);
  const std::int64_t runs = a.hidden * (a.bfloat16 ? 2 : 4) / 16;
  for (int threads = device::kNormMostThreads; threads >= 64 && norm_is_vectorized(a);
       threads /= 2) {
    const RowGeometry geometry = row_geometry(runs, kNormRuns, threads, /*one_row=*/false);
    if (geometry.threads == 0 || geometry.threads > threads) break;
    const std::size_t bytes = backward_shared_bytes(a, geometry);
    const std::int64_t blocks = (a.num_rows + geometry.rows - 1) / geometry.rows;
    constexpr std::size_t kReservedBytes = 1024;
    if (bytes + kReservedBytes > most_bytes) continue;
    return {geometry, bytes, std::min<std::int64_t>(num_multiprocessors, blocks)};
  }
  return {{},
          0,
          std::min<std::int64_t>(kWideBlocksPerMultiprocessor * num_multiprocessors, a.num_rows)};
}

template <typename T, bool kCentered>
void launch_norm_forward(const NormArguments& a, cudaStream_t stream) {
  constexpr int kRun = 16 / sizeof(T);
  const bool vectors = norm_is_vectorized(a);
  const RowGeometry geometry =
      vectors ? row_geometry(a.hidden / kRun, kNormRuns, kForwardBlockThreads, /*one_row=*/true)
              : RowGeometry{};
  const auto blocks = static_cast<unsigned>((a.num_rows + geometry.rows - 1) / geometry.rows);
  const dim3 threads(geometry.threads, geometry.rows);
  if (geometry.threads != 0) {
    device::norm_forward_kernel<T, kRun, kNormRuns, kCentered><<<blocks, threads, 0, stream>>>(a);
  } else if (vectors) {
    device::wide_norm_forward_kernel<T, kRun, kCentered>
        <<<blocks, device::kWideThreads, 0, stream>>>(a);
  } else {
    device::wide_norm_forward_kernel<T, 1, kCentered>
        <<<blocks, device::kWideThreads, 0, stream>>>(a);
  }
}

template <typename T, bool kCentered>
void launch_norm_backward(const NormArguments& a, cudaStream_t stream) {
  constexpr int kRun = 16 / sizeof(T);
  const BackwardPlan plan = backward_plan(a);
  const auto blocks = static_cast<unsigned>(plan.num_blocks);
  const dim3 threads(plan.geometry.threads, plan.geometry.rows);
  if (plan.geometry.threads != 0) {
    const auto kernel = device::norm_backward_kernel<T, kRun, kNormRuns, kCentered>;
    PACKTRAIN_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(plan.shared_bytes)));
    kernel<<<blocks, threads, plan.shared_bytes, stream>>>(a);
  } else if (norm_is_vectorized(a)) {
    device::wide_norm_backward_kernel<T, kRun, kCentered>
        <<<blocks, device::kWideThreads, 0, stream>>>(a);
  } else {
    device::wide_norm_backward_kernel<T, 1, kCentered>
        <<<blocks, device::kWideThreads, 0, stream>>>(a);
  }
}

template <bool kCentered>
void launch_norm(const NormArguments& a, void* stream) {
  if (a.num_rows == 0 || a.hidden == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  if (a.grad_output == nullptr) {
    a.bfloat16 ? launch_norm_forward<__nv_bfloat16, kCentered>(a, on)
               : launch_norm_forward<float, kCentered>(a, on);
  } else {
    a.bfloat16 ? launch_norm_backward<__nv_bfloat16, kCentered>(a, on)
               : launch_norm_backward<float, kCentered>(a, on);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

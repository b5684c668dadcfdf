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

constexpr int kForwardRuns = 4;  // of 16 bytes of a row that a thread holds
constexpr int kForwardBlockThreads = 128;

// Of forward, for `runs` of 16 bytes a row. Where a row is several warps, a block has one.
inline RowGeometry forward_geometry(std::int64_t runs) {
  const std::int64_t wanted = (runs + kForwardRuns - 1) / kForwardRuns;
  if (wanted > device::kNormMostThreads) return {};
  if (wanted > 32) return {static_cast<int>((wanted + 31) / 32 * 32), 1};
  int threads = 4;
  while (threads < wanted) threads *= 2;
  return {threads, kForwardBlockThreads / threads};
}

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

// Of the backward kernel. `held` 0: rows for the wide one.
struct BackwardPlan {
  int held = 0;          // runs of 16 bytes of a row that a thread holds
  RowGeometry geometry;  // whole warps
  std::size_t shared_bytes = 0;
  std::int64_t num_blocks = 0;
};

constexpr int kFewRuns = 2;   // in backward: registers enough for sums, weights and rows
constexpr int kManyRuns = 4;  // of rows too wide for that

// Shared memory of a block: rows under way, or sums.
inline std::size_t backward_shared_bytes(const NormArguments& a, int held,
                                         const RowGeometry& geometry) {
  constexpr std::size_t kRunBytes = 16;
  const std::size_t num_inputs = a.residual == nullptr ? 2 : 3;
  const std::size_t rows = num_inputs * held * kRunBytes * device::kNormMostThreads;
  return std::max(rows, geometry.rows * a.hidden * sizeof(float));
}

// One block a multiprocessor, as wide as may be.
inline BackwardPlan backward_plan(const NormArguments& a) {
  constexpr int kWideBlocksPerMultiprocessor = 4;
  constexpr int kWarp = 32;
  const int num_multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount);
  const std::int64_t runs = a.hidden * (a.bfloat16 ? 2 : 4) / 16;
  for (const int held : {kFewRuns, kManyRuns}) {
    const std::int64_t warps = (runs + held * kWarp - 1) / (held * kWarp);
    if (!norm_is_vectorized(a) || warps * kWarp > device::kNormMostThreads) continue;
    const int threads = static_cast<int>(warps) * kWarp;
    const RowGeometry geometry{threads, device::kNormMostThreads / threads};
    const std::int64_t blocks = (a.num_rows + geometry.rows - 1) / geometry.rows;
    return {held, geometry, backward_shared_bytes(a, held, geometry),
            std::min<std::int64_t>(num_multiprocessors, blocks)};
  }
  return {0,
          {},
          0,
          std::min<std::int64_t>(kWideBlocksPerMultiprocessor * num_multiprocessors, a.num_rows)};
}

template <typename T, bool kCentered>
void launch_norm_forward(const NormArguments& a, cudaStream_t stream) {
  constexpr int kRun = 16 / sizeof(T);
  const bool vectors = norm_is_vectorized(a);
  const RowGeometry geometry = vectors ? forward_geometry(a.hidden / kRun) : RowGeometry{};
  const auto blocks = static_cast<unsigned>((a.num_rows + geometry.rows - 1) / geometry.rows);
  const dim3 threads(geometry.threads, geometry.rows);
  if (geometry.threads != 0) {
    device::norm_forward_kernel<T, kRun, kForwardRuns, kCentered>
        <<<blocks, threads, 0, stream>>>(a);
  } else if (vectors) {
    device::wide_norm_forward_kernel<T, kRun, kCentered>
        <<<blocks, device::kWideThreads, 0, stream>>>(a);
  } else {
    device::wide_norm_forward_kernel<T, 1, kCentered>
        <<<blocks, device::kWideThreads, 0, stream>>>(a);
  }
}

template <typename T, bool kCentered, int V>
void launch_held_backward(const NormArguments& a, const BackwardPlan& plan, cudaStream_t stream) {
  constexpr int kRun = 16 / sizeof(T);
  const auto kernel = a.residual == nullptr
                          ? device::norm_backward_kernel<T, kRun, V, kCentered, false>
                          : device::norm_backward_kernel<T, kRun, V, kCentered, true>;
  PACKTRAIN_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(plan.shared_bytes)));
  launch_chained(kernel, dim3(static_cast<unsigned>(plan.num_blocks)),
                 dim3(plan.geometry.threads, plan.geometry.rows), stream, a, plan.shared_bytes);
}

template <typename T, bool kCentered>
void launch_norm_backward(const NormArguments& a, cudaStream_t stream) {
  constexpr int kRun = 16 / sizeof(T);
  const BackwardPlan plan = backward_plan(a);
  const auto blocks = static_cast<unsigned>(plan.num_blocks);
  if (plan.held == kFewRuns) {
    launch_held_backward<T, kCentered, kFewRuns>(a, plan, stream);
  } else if (plan.held == kManyRuns) {
    launch_held_backward<T, kCentered, kManyRuns>(a, plan, stream);
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

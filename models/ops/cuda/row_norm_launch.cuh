// Chooses and launches the kernels of RMSNorm and (kCentered) LayerNorm.
#pragma once

#include <algorithm>

#include "framework/device/cuda/architecture.h"
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/row_norm_backward.cuh"
#include "models/ops/cuda/row_norm_wide.cuh"

namespace packtrain {

// How threads are laid over rows in forward. `threads` is 0 when the row does not fit in registers.
struct RowGeometry {
  int threads = 0;  // for a row
  int rows = 1;     // in a block
};

constexpr int kForwardRuns = 4;  // 16-byte vectors of a row that a thread holds
constexpr int kForwardBlockThreads = 128;

// Geometry of forward for rows of `runs` 16-byte vectors. A row of several warps has its own block.
inline RowGeometry forward_geometry(std::int64_t runs) {
  const std::int64_t wanted = (runs + kForwardRuns - 1) / kForwardRuns;
  if (wanted > device::kNormMaxThreads) return {};
  if (wanted > 32) return {static_cast<int>((wanted + 31) / 32 * 32), 1};
  int threads = 4;
  while (threads < wanted) threads *= 2;
  return {threads, kForwardBlockThreads / threads};
}

inline bool norm_is_vectorized(const NormArguments& a) {
  const std::int64_t element_bytes = static_cast<std::int64_t>(size_of(a.dtype));
  return can_vectorize(a.row_stride, element_bytes) &&
         can_vectorize(a.hidden, element_bytes, a.x, a.weight, a.bias, a.residual, a.grad_output,
                       a.output, a.recomputed_output);
}

// Geometry of backward. `held` is 0 when a row is not made of whole 16-byte vectors, is too wide
// for registers or needs too much shared memory. A block has one row then.
struct BackwardPlan {
  int held = 0;         // 16-byte vectors of a row that a thread holds
  int row_threads = 0;  // whole warps
  int block_rows = 1;   // rows in flight
  std::int64_t num_blocks = 0;
};

constexpr int kFewRuns = 2;   // leaves registers for column sums, weights and rows
constexpr int kManyRuns = 4;  // for rows too wide for that

// True when a block's rows in flight fit in shared memory. Those of kManyRuns do not fit in the
// 99 KiB of 8.6, 8.9 and 12.0.
inline bool rows_fit_in_shared_memory(const NormArguments& a, int held) {
  constexpr int kStatic = 1024;  // upper bound of the kernel's static shared memory
  const int bytes = a.residual != nullptr
                        ? device::BackwardCopies<float, 4, 1, true>::kSharedBytes
                        : device::BackwardCopies<float, 4, 1, false>::kSharedBytes;
  return held * bytes + kStatic <= max_shared_memory_per_block();
}

// As many blocks as run at the same time, because each one has a row of partial sums.
inline BackwardPlan backward_plan(const NormArguments& a) {
  constexpr int kWarp = 32;
  constexpr std::int64_t kWideBlocks = 4;  // a multiprocessor; kernels that hold rows: 1
  const std::int64_t runs = a.hidden * static_cast<std::int64_t>(size_of(a.dtype)) / 16;
  const std::int64_t most = device_attribute(cudaDevAttrMultiProcessorCount);
  for (const int held : {kFewRuns, kManyRuns}) {
    const std::int64_t threads = (runs + held * kWarp - 1) / (held * kWarp) * kWarp;
    if (!norm_is_vectorized(a) || threads > device::kRowThreads) continue;
    if (!rows_fit_in_shared_memory(a, held)) continue;
    const std::int64_t rows = device::kRowThreads / threads;
    return {held, static_cast<int>(threads), static_cast<int>(rows),
            std::min(most, (a.num_rows + rows - 1) / rows)};
  }
  return {0, 0, 1, std::min(kWideBlocks * most, a.num_rows)};
}

template <typename T, bool kCentered>
void launch_norm_forward(const NormArguments& a, cudaStream_t stream) {
  constexpr int kVecSize = 16 / sizeof(T);
  const bool vectors = norm_is_vectorized(a);
  const RowGeometry geometry = vectors ? forward_geometry(a.hidden / kVecSize) : RowGeometry{};
  const auto blocks = static_cast<unsigned>((a.num_rows + geometry.rows - 1) / geometry.rows);
  const dim3 threads(geometry.threads, geometry.rows);
  if (geometry.threads != 0) {
    device::norm_forward_kernel<T, kVecSize, kForwardRuns, kCentered>
        <<<blocks, threads, 0, stream>>>(a);
  } else if (vectors) {
    device::wide_norm_forward_kernel<T, kVecSize, kCentered>
        <<<blocks, device::kWideThreads, 0, stream>>>(a);
  } else {
    device::wide_norm_forward_kernel<T, 1, kCentered>
        <<<blocks, device::kWideThreads, 0, stream>>>(a);
  }
}

// Shared memory is used for rows in flight, then for sums.
template <typename T, bool kCentered, int V, bool kResidual>
void launch_register_backward(const NormArguments& a, const BackwardPlan& plan,
                              cudaStream_t stream) {
  constexpr int kVecSize = 16 / sizeof(T);
  const auto kernel = device::norm_backward_kernel<T, kVecSize, V, kCentered, kResidual>;
  const std::size_t rows_bytes = device::BackwardCopies<T, kVecSize, V, kResidual>::kSharedBytes;
  const std::size_t bytes = std::max(rows_bytes, plan.block_rows * a.hidden * sizeof(float));
  PACKTRAIN_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(bytes)));
  launch_dependent(kernel, dim3(static_cast<unsigned>(plan.num_blocks)),
                   dim3(plan.row_threads, plan.block_rows), stream, a, bytes);
}

template <typename T, bool kCentered>
void launch_norm_backward(const NormArguments& a, cudaStream_t stream) {
  constexpr int kVecSize = 16 / sizeof(T);
  const BackwardPlan plan = backward_plan(a);
  const auto blocks = static_cast<unsigned>(plan.num_blocks);
  const bool adds = a.residual != nullptr;
  if (plan.held == kFewRuns) {
    adds ? launch_register_backward<T, kCentered, kFewRuns, true>(a, plan, stream)
         : launch_register_backward<T, kCentered, kFewRuns, false>(a, plan, stream);
  } else if (plan.held == kManyRuns) {
    adds ? launch_register_backward<T, kCentered, kManyRuns, true>(a, plan, stream)
         : launch_register_backward<T, kCentered, kManyRuns, false>(a, plan, stream);
  } else if (norm_is_vectorized(a)) {
    device::wide_norm_backward_kernel<T, kVecSize, kCentered>
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
    a.dtype == DataType::kBFloat16 ? launch_norm_forward<__nv_bfloat16, kCentered>(a, on)
                                   : launch_norm_forward<float, kCentered>(a, on);
  } else {
    a.dtype == DataType::kBFloat16 ? launch_norm_backward<__nv_bfloat16, kCentered>(a, on)
                                   : launch_norm_backward<float, kCentered>(a, on);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

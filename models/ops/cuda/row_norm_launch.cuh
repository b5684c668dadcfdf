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

// Backward keeps sums of each column besides: LayerNorm's threads hold half as many.
template <bool kCentered>
constexpr int kForwardRuns = 4;
template <bool kCentered>
constexpr int kBackwardRuns = kCentered ? 2 : 4;

constexpr int kForwardBlockThreads = 128;

inline bool norm_is_vectorized(const NormArguments& a) {
  return can_vectorize(a.hidden, a.bfloat16 ? 2 : 4, a.x, a.weight, a.bias, a.residual,
                       a.grad_output, a.output, a.sum, a.remade_y);
}

template <bool kCentered>
RowGeometry backward_geometry(const NormArguments& a) {
  if (!norm_is_vectorized(a)) return {};
  return row_geometry(a.hidden * (a.bfloat16 ? 2 : 4) / 16, kBackwardRuns<kCentered>,
                      device::kNormMostThreads, /*one_row=*/false);
}

// Blocks of a backward, each of which writes one row of partial sums.
template <bool kCentered>
std::int64_t backward_blocks(const NormArguments& a) {
  constexpr int kWideBlocksPerMultiprocessor = 4;
  const RowGeometry geometry = backward_geometry<kCentered>(a);
  int device = 0;
  int num_multiprocessors = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(
      cudaDeviceGetAttribute(&num_multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const std::int64_t most = std::int64_t{num_multiprocessors} *
                            (geometry.threads == 0 ? kWideBlocksPerMultiprocessor : 1);
  return std::min(most, (a.num_rows + geometry.rows - 1) / geometry.rows);
}

template <typename T, bool kCentered>
void launch_norm_forward(const NormArguments& a, cudaStream_t stream) {
  constexpr int kRun = 16 / sizeof(T);
  constexpr int kHeld = kForwardRuns<kCentered>;
  const bool vectors = norm_is_vectorized(a);
  const RowGeometry geometry =
      vectors ? row_geometry(a.hidden / kRun, kHeld, kForwardBlockThreads, /*one_row=*/true)
              : RowGeometry{};
  const auto blocks = static_cast<unsigned>((a.num_rows + geometry.rows - 1) / geometry.rows);
  const dim3 threads(geometry.threads, geometry.rows);
  if (geometry.threads != 0) {
    device::norm_forward_kernel<T, kRun, kHeld, kCentered><<<blocks, threads, 0, stream>>>(a);
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
  constexpr int kHeld = kBackwardRuns<kCentered>;
  const RowGeometry geometry = backward_geometry<kCentered>(a);
  const auto blocks = static_cast<unsigned>(backward_blocks<kCentered>(a));
  const dim3 threads(geometry.threads, geometry.rows);
  if (geometry.threads != 0) {
    // A row of weights, then one of float32 sums: 32 KiB at most, as only rows that are held by no
    // more than half of a block need the latter.
    const std::size_t shared_bytes = a.hidden * (geometry.rows > 1 ? sizeof(float) : sizeof(T));
    device::norm_backward_kernel<T, kRun, kHeld, kCentered>
        <<<blocks, threads, shared_bytes, stream>>>(a);
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

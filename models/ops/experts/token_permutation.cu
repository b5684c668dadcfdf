// A stable counting sort in three launches. Each warp counts the experts of its segment of
// assignments. One block turns the counts into start positions for each expert and segment. Each
// warp then walks its segment again and writes the positions. Equal experts of 32 lanes are ordered
// by lane (__match_any_sync), so no atomics are needed.
#include <cub/block/block_scan.cuh>

#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/experts/token_permutation_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 128;
constexpr int kScanThreads = 1024;
constexpr unsigned kAllLanes = ~0U;
constexpr std::int64_t kSharedBytes = 48 << 10;  // limit of a block without cudaFuncSetAttribute

std::int64_t num_runs(std::int64_t num_assignments) {
  return (num_assignments + kAssignmentsPerWarp - 1) / kAssignmentsPerWarp;
}

// Counts the assignments of a segment or, if kPlace, writes their positions. `next` [num_experts]
// has the next position of each expert.
template <bool kPlace>
__device__ void scan_segment(const TokenPermutationArguments& a, std::int64_t run,
                             std::int32_t* next) {
  const unsigned lane = threadIdx.x % 32;
  const std::int64_t begin = run * kAssignmentsPerWarp;
  const std::int64_t end = min(begin + kAssignmentsPerWarp, a.num_assignments);
  for (std::int64_t first = begin; first < end; first += 32) {
    const std::int64_t assignment = first + lane;
    const bool exists = assignment < end;
    const std::int32_t expert = exists ? a.experts[assignment] : -1;
    const unsigned alike = __match_any_sync(kAllLanes, expert);
    const int before = __popc(alike & ((1U << lane) - 1));
    const std::int32_t start = exists ? next[expert] : 0;
    if constexpr (kPlace) {
      if (exists) a.permuted_rows[assignment] = start + before;
    }
    __syncwarp();
    if (exists && before == 0) next[expert] = start + __popc(alike);
    __syncwarp();
  }
}

template <bool kPlace>
__global__ void __launch_bounds__(kThreads)
    segments_kernel(const TokenPermutationArguments a, const std::int64_t num_runs) {
  extern __shared__ std::int32_t shared[];
  const std::int64_t warp = threadIdx.x / 32;
  const std::int64_t lane = threadIdx.x % 32;
  const std::int64_t run = std::int64_t{blockDim.x / 32} * blockIdx.x + warp;
  if (run >= num_runs) return;
  std::int32_t* const next = shared + warp * a.num_experts;
  for (std::int64_t e = lane; e < a.num_experts; e += 32) {
    next[e] = kPlace ? a.starts[e * num_runs + run] : 0;
  }
  __syncwarp();
  scan_segment<kPlace>(a, run, next);
  if constexpr (!kPlace) {
    for (std::int64_t e = lane; e < a.num_experts; e += 32) a.starts[e * num_runs + run] = next[e];
  }
}

// Exclusive prefix sums of the counts, by expert and then by segment.
__global__ void __launch_bounds__(kScanThreads)
    starts_kernel(const TokenPermutationArguments a, const std::int64_t num_runs) {
  using Scan = cub::BlockScan<std::int32_t, kScanThreads>;
  __shared__ typename Scan::TempStorage storage;
  const std::int64_t count = a.num_experts * num_runs;
  const std::int64_t share = (count + kScanThreads - 1) / kScanThreads;
  const std::int64_t begin = min(share * threadIdx.x, count);
  const std::int64_t end = min(begin + share, count);
  std::int32_t sum = 0;
  for (std::int64_t i = begin; i < end; ++i) sum += a.starts[i];
  Scan(storage).ExclusiveSum(sum, sum);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int32_t here = a.starts[i];
    a.starts[i] = sum;
    sum += here;
  }
  __syncthreads();
  for (std::int64_t e = threadIdx.x; e < a.num_experts; e += kScanThreads) {
    a.ends[e] = static_cast<std::int32_t>(e + 1 < a.num_experts ? a.starts[(e + 1) * num_runs]
                                                                : a.num_assignments);
  }
}

// Integer sums below 2^24 are exact in float32 in any order, so atomics stay deterministic.
__global__ void __launch_bounds__(kScanThreads) counts_kernel(const ExpertCountsArguments a) {
  extern __shared__ std::int32_t shared[];
  for (std::int64_t e = threadIdx.x; e < a.num_experts; e += kScanThreads) shared[e] = 0;
  __syncthreads();
  const std::int64_t row = std::int64_t{kScanThreads} * blockIdx.x + threadIdx.x;
  if (row < a.num_rows && (a.row_counts == nullptr || a.row_counts[row] != 0)) {
    for (std::int64_t s = 0; s < a.experts_per_row; ++s) {
      atomicAdd(&shared[a.experts[row * a.experts_per_row + s]], 1);
    }
  }
  __syncthreads();
  for (std::int64_t e = threadIdx.x; e < a.num_experts; e += kScanThreads) {
    if (shared[e] != 0) atomicAdd(&a.counts[e], static_cast<float>(shared[e]));
  }
}

template <typename Kernel>
void allow_shared_memory(Kernel kernel, std::int64_t bytes) {
  if (bytes <= kSharedBytes) return;
  PACKTRAIN_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(bytes)));
}

template <bool kPlace>
void launch_vectors(const TokenPermutationArguments& a, cudaStream_t stream) {
  const std::int64_t warp_bytes = a.num_experts * std::int64_t{sizeof(std::int32_t)};
  const std::int64_t warps = std::clamp<std::int64_t>(kSharedBytes / warp_bytes, 1, kThreads / 32);
  const std::int64_t runs = num_runs(a.num_assignments);
  allow_shared_memory(segments_kernel<kPlace>, warps * warp_bytes);
  segments_kernel<kPlace>
      <<<static_cast<unsigned>((runs + warps - 1) / warps), static_cast<unsigned>(32 * warps),
         static_cast<std::size_t>(warps * warp_bytes), stream>>>(a, runs);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_token_permutation(const TokenPermutationArguments& arguments, void* stream) {
  if (arguments.num_assignments == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  launch_vectors<false>(arguments, on);
  starts_kernel<<<1, kScanThreads, 0, on>>>(arguments, num_runs(arguments.num_assignments));
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
  launch_vectors<true>(arguments, on);
}

void launch_expert_counts(const ExpertCountsArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  const std::int64_t bytes = arguments.num_experts * std::int64_t{sizeof(std::int32_t)};
  allow_shared_memory(counts_kernel, bytes);
  const auto blocks = static_cast<unsigned>((arguments.num_rows + kScanThreads - 1) / kScanThreads);
  counts_kernel<<<blocks, kScanThreads, static_cast<std::size_t>(bytes),
                  static_cast<cudaStream_t>(stream)>>>(arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

// Bound by memory bandwidth. Concurrent GEMMs fill whole multiprocessors, so a block of this kernel
// gets one that they do not use. It must keep many loads in flight to use it well.
#include <algorithm>

#include "framework/device/cuda/bfloat16.cuh"
#include "framework/device/cuda/check.h"
#include "parallel/communicators/nccl/rank_sum.h"

namespace packtrain {
namespace {

constexpr int kThreads = 1024;
constexpr int kLoads = 8;  // loads of 16 bytes that a thread keeps in flight
// Bytes of all parts together: about 0.2 ms for a block. With 132 blocks steps were 1 % longer.
constexpr std::int64_t kBytesPerBlock = std::int64_t{16} << 20;
constexpr int kMaxBlocks = 132;

using Run = uint4;  // 16 bytes

template <bool kBFloat16>
struct Sum;

template <>
struct Sum<false> {
  float values[4] = {};

  __device__ void add(const Run& run) {
    values[0] += __uint_as_float(run.x);
    values[1] += __uint_as_float(run.y);
    values[2] += __uint_as_float(run.z);
    values[3] += __uint_as_float(run.w);
  }
  __device__ Run rounded() const {
    return {__float_as_uint(values[0]), __float_as_uint(values[1]), __float_as_uint(values[2]),
            __float_as_uint(values[3])};
  }
};

template <>
struct Sum<true> {
  float values[8] = {};

  __device__ void add(const Run& run) {
    const std::uint32_t words[4] = {run.x, run.y, run.z, run.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[2 * i] += device::low_bfloat16(words[i]);
      values[2 * i + 1] += device::high_bfloat16(words[i]);
    }
  }
  __device__ Run rounded() const {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
          : "=r"(words[i])
          : "f"(values[2 * i + 1]), "f"(values[2 * i]));
    }
    return {words[0], words[1], words[2], words[3]};
  }
};

// kRanks: the number of ranks as a constant, so that all loads of a thread are in flight at the
// same time.
template <bool kBFloat16, int kRanks>
__global__ void __launch_bounds__(kThreads)
    rank_sum_kernel(const Run* parts, Run* sum, const std::int64_t num_runs) {
  constexpr int kRuns = kLoads / kRanks;
  constexpr std::int64_t kTile = std::int64_t{kThreads} * kRuns;
  for (std::int64_t first = blockIdx.x * kTile + threadIdx.x; first < num_runs;
       first += gridDim.x * kTile) {
    Run loaded[kRuns][kRanks];
#pragma unroll
    for (int u = 0; u < kRuns; ++u) {
      const std::int64_t run = first + std::int64_t{u} * kThreads;
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        loaded[u][r] = run < num_runs ? __ldcs(parts + r * num_runs + run) : Run{};
      }
    }
#pragma unroll
    for (int u = 0; u < kRuns; ++u) {
      const std::int64_t run = first + std::int64_t{u} * kThreads;
      Sum<kBFloat16> total;
#pragma unroll
      for (int r = 0; r < kRanks; ++r) total.add(loaded[u][r]);
      if (run < num_runs) sum[run] = total.rounded();
    }
  }
}

template <bool kBFloat16>
__global__ void __launch_bounds__(kThreads)
    many_rank_sum_kernel(const Run* parts, Run* sum, const std::int64_t num_runs,
                         const int num_ranks) {
  for (std::int64_t run = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; run < num_runs;
       run += std::int64_t{gridDim.x} * kThreads) {
    Sum<kBFloat16> total;
#pragma unroll 4
    for (int r = 0; r < num_ranks; ++r) total.add(__ldcs(parts + r * num_runs + run));
    sum[run] = total.rounded();
  }
}

template <bool kBFloat16>
void launch(const RankSumArguments& a, cudaStream_t stream) {
  const auto* parts = static_cast<const Run*>(a.parts);
  auto* sum = static_cast<Run*>(a.sum);
  const auto num_runs = a.num_bytes / static_cast<std::int64_t>(sizeof(Run));
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>(a.num_ranks * a.num_bytes / kBytesPerBlock, 1, kMaxBlocks));
  switch (a.num_ranks) {
    case 2:
      rank_sum_kernel<kBFloat16, 2><<<blocks, kThreads, 0, stream>>>(parts, sum, num_runs);
      break;
    case 4:
      rank_sum_kernel<kBFloat16, 4><<<blocks, kThreads, 0, stream>>>(parts, sum, num_runs);
      break;
    case 8:
      rank_sum_kernel<kBFloat16, 8><<<blocks, kThreads, 0, stream>>>(parts, sum, num_runs);
      break;
    default:
      many_rank_sum_kernel<kBFloat16>
          <<<blocks, kThreads, 0, stream>>>(parts, sum, num_runs, a.num_ranks);
  }
}

}  // namespace

void launch_rank_sum(const RankSumArguments& arguments, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (arguments.dtype == DataType::kBFloat16) {
    launch<true>(arguments, cuda_stream);
  } else {
    launch<false>(arguments, cuda_stream);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

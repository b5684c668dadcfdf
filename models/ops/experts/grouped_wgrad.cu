// Grouped weight gradient, in the form of CUTLASS's persistent warp-specialized cooperative kernels
// (github.com/NVIDIA/cutlass, media/docs/cpp/efficient_gemm.md). A block computes tiles of 128 x
// 256. One producer warp copies 64 rows of both operands by TMA into each of four stages. Two
// consumer warp groups hold 64 x 256 accumulators each. The two blocks of a cluster have tiles one
// below the other. Each one copies half of the right operand to both by multicast.
#include <cuda_bf16.h>

#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/cluster.cuh"
#include "models/ops/cuda/hopper/tensor_map.h"
#include "models/ops/cuda/hopper/tma.cuh"
#include "models/ops/cuda/hopper/wgmma.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/experts/grouped_wgrad_launch.h"
#include "models/ops/experts/grouped_wgrad_tile.cuh"

namespace packtrain {
namespace {

using device::GradientTile;
using device::kTileThreads;
using device::Major;

constexpr int kStages = 4;
constexpr int kRows = 64;      // rows (K) of a stage
constexpr int kBox = 64;       // columns of a TMA box: 128 bytes
constexpr int kStepRows = 16;  // K of one wgmma
constexpr int kCluster = 2;
constexpr int kThreads = 128 + kTileThreads;
// Launch bounds give 168 registers to each of 384 threads, and 40 + 2 x 232 = 3 x 168. Consumers
// hold 128 accumulators and the old values of two batches.
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;

using Box = __nv_bfloat16[kRows][kBox];
struct Stage {
  Box left[GradientTile::kLeft / kBox];
  Box right[GradientTile::kRight / kBox];
};
// 1,024 bytes are one atom of the 128-byte swizzle: 8 rows of 128 bytes. Each box starts at a
// multiple.
struct alignas(1024) Shared {
  Stage stages[kStages];
  device::Barrier full[kStages];
  device::Barrier empty[kStages];
};

struct Operands {
  CUtensorMap left;
  CUtensorMap right;
};

// Gives a block its tiles. Clusters that run at the same time work on a panel 8 clusters high, so
// that their operands stay in L2.
class TileScheduler {
 public:
  __device__ explicit TileScheduler(const GroupedWgradArguments& a)
      : a_(a),
        high_((a.num_left + kCluster * GradientTile::kLeft - 1) / (kCluster * GradientTile::kLeft)),
        wide_((a.num_right + GradientTile::kRight - 1) / GradientTile::kRight),
        next_(blockIdx.x / kCluster) {}

  __device__ bool next(GradientTile& tile) {
    const int of_group = high_ * wide_;
    if (next_ >= of_group * a_.num_groups) return false;
    const int within = next_ % of_group;
    const int top = within / (kPanel * wide_) * kPanel;
    const int height = min(kPanel, high_ - top);
    const int in_panel = within - top * wide_;
    tile.group = next_ / of_group;
    tile.left = ((top + in_panel % height) * kCluster + device::block_rank_in_cluster()) *
                GradientTile::kLeft;
    tile.right = in_panel / height * GradientTile::kRight;
    tile.begin = tile.group == 0 ? 0 : a_.ends[tile.group - 1];
    tile.end = a_.ends[tile.group];
    tile.num_stages = (tile.end - tile.begin + kRows - 1) / kRows;
    if (!a_.target.accumulate) tile.num_stages = max(1, tile.num_stages);
    next_ += gridDim.x / kCluster;
    return true;
  }

 private:
  static constexpr int kPanel = 8;

  const GroupedWgradArguments& a_;
  int high_;
  int wide_;
  int next_;
};

// Index of the next stage and phase parity of its barriers. The parity flips after each round.
struct PipelineState {
  int stage = 0;
  int parity = 0;

  __device__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// Producer loop of one thread.
__device__ void produce(const Operands& operands, const GroupedWgradArguments& a, Shared& shared) {
  constexpr int kShare = GradientTile::kRight / kBox / kCluster;  // boxes of the right operand
  const int rank = device::block_rank_in_cluster();
  TileScheduler tiles(a);
  PipelineState state;
  for (GradientTile tile; tiles.next(tile);) {
    for (int i = 0; i < tile.num_stages; ++i, state.advance()) {
      const int row = tile.begin + i * kRows;
      Stage& stage = shared.stages[state.stage];
      device::Barrier& full = shared.full[state.stage];
      // producer_acquire: the inverted parity passes on new barriers in the first round.
      shared.empty[state.stage].wait(state.parity ^ 1);
      // The bytes include the half of the right operand that the other block copies.
      full.arrive_and_expect_tx(sizeof(Stage));
      for (int b = 0; b < GradientTile::kLeft / kBox; ++b) {
        device::tma_load_2d(operands.left, tile.left + b * kBox, row, stage.left[b], full);
      }
      for (int b = rank * kShare; b < (rank + 1) * kShare; ++b) {
        device::tma_load_2d_multicast(operands.right, tile.right + b * kBox, row, stage.right[b],
                                      full, (1 << kCluster) - 1);
      }
    }
  }
}

// Named barrier of the consumer warps. The producer warp never arrives at barrier 0 in the loop, so
// __syncthreads() would hang.
__device__ void consumers_barrier() {
  asm volatile("bar.sync 1, %0;" ::"n"(kTileThreads) : "memory");
}

// Zeroes the rows of a stage from `begin` on, which belong to the next group. Zeros in one operand
// alone are not enough, because NaN times zero is NaN. The swizzle moves 16-byte words only inside
// a row, so whole rows need no address conversion. Then fence.proxy.async and the barrier make
// these generic writes visible to the wgmma of all consumer warps.
__device__ void clear_rows(Stage& stage, int begin) {
  constexpr int kRuns = kBox * sizeof(__nv_bfloat16) / sizeof(uint4);  // of a row of a box
  constexpr int kBoxes = sizeof(Stage) / sizeof(Box);
  auto* const boxes = reinterpret_cast<uint4(*)[kRows * kRuns]>(&stage);
  for (int i = begin * kRuns + threadIdx.x % 128; i < kRows * kRuns; i += 128) {
    for (int b = threadIdx.x / 128 - 1; b < kBoxes; b += kTileThreads / 128) boxes[b][i] = uint4{};
  }
  device::fence_proxy_async();
  consumers_barrier();
}

// One wgmma: 16 rows of the stage.
__device__ void mma_step(const Stage& stage, int half, int step, device::Accumulator<256>& sums,
                         bool add) {
  constexpr int kStepBytes = kStepRows * kBox * sizeof(__nv_bfloat16);
  const std::uint32_t left = device::shared_address(stage.left[half]) + step * kStepBytes;
  const std::uint32_t right = device::shared_address(stage.right[0]) + step * kStepBytes;
  device::wgmma<Major::kMN, Major::kMN>(sums, device::make_smem_descriptor_mn(left, sizeof(Box)),
                                        device::make_smem_descriptor_mn(right, sizeof(Box)), add);
}

// consumer_release: one lane of each warp arrives at the empty barriers of the cluster's blocks.
// Both producers write to this stage by multicast.
__device__ void release(Shared& shared, int stage) {
  if (threadIdx.x % 32 == 0) {
    for (int rank = 0; rank < kCluster; ++rank) shared.empty[stage].arrive_cluster(rank);
  }
}

// Mainloop of a warp group's half of a tile. Returns the stage that the last wgmma, which may be in
// flight, still reads.
__device__ int mma_tile(const GradientTile& tile, int half, Shared& shared, PipelineState& state,
                        device::Accumulator<256>& sums) {
  int previous = 0;
  for (int i = 0; i < tile.num_stages; ++i, state.advance()) {
    Stage& stage = shared.stages[state.stage];
    const int num_rows = tile.end - tile.begin - i * kRows;
    // consumer_wait: TMA has filled this stage.
    shared.full[state.stage].wait(state.parity);
    if (num_rows < kRows) clear_rows(stage, num_rows);
    device::warpgroup_arrive(sums);
#pragma unroll
    for (int step = 0; step < kRows / kStepRows; ++step) {
      mma_step(stage, half, step, sums, step > 0 || i > 0);
    }
    device::warpgroup_commit_batch();
    // One group stays in flight; the previous stage has been read and can be refilled.
    device::warpgroup_wait<1>(sums);
    if (i > 0) release(shared, previous);
    previous = state.stage;
  }
  return previous;
}

template <typename G, bool kFours>
__device__ void consume(const GroupedWgradArguments& a, Shared& shared) {
  const int half = threadIdx.x / 128 - 1;
  TileScheduler tiles(a);
  PipelineState state;
  for (GradientTile tile; tiles.next(tile);) {
    // The producer skips this tile too, so stages and parities stay equal.
    if (tile.num_stages == 0) continue;
    if (kFours && a.target.accumulate) device::fetch_tile<G>(tile, a);
    device::Accumulator<256> sums;
    const int last = mma_tile(tile, half, shared, state, sums);
    if constexpr (kFours) {
      device::FourColumns<G> columns(tile, a);
      device::warpgroup_wait<0>(sums);
      release(shared, last);
      columns.write(sums);
    } else {
      device::warpgroup_wait<0>(sums);
      release(shared, last);
      device::store_scalars<G>(tile, sums, a);
    }
  }
}

template <typename G, bool kFours>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster, 1, 1)
    grouped_wgrad_kernel(const __grid_constant__ Operands operands,
                         const __grid_constant__ GroupedWgradArguments a) {
  extern __shared__ unsigned char memory[];
  const std::uintptr_t aligned = (reinterpret_cast<std::uintptr_t>(memory) + alignof(Shared) - 1) /
                                 alignof(Shared) * alignof(Shared);
  Shared& shared = *reinterpret_cast<Shared*>(aligned);
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      // full: one arrival of the producer, plus bytes. empty: all consumer warps of both blocks.
      shared.full[s].init(1);
      shared.empty[s].init(kCluster * kTileThreads / 32);
    }
    device::fence_barrier_init();
  }
  device::cluster_sync();
  if (threadIdx.x < kThreads - kTileThreads) {
    device::warpgroup_reg_dealloc<kProducerRegisters>();
    // The warp reconverges after the one producer thread: cluster_sync() is an aligned barrier.
    if (threadIdx.x == 0) produce(operands, a, shared);
    __syncwarp();
  } else {
    device::warpgroup_reg_alloc<kConsumerRegisters>();
    consume<G, kFours>(a, shared);
  }
  device::cluster_sync();  // a block must not exit while its peer still arrives at its barriers
}

template <typename G, bool kFours>
void launch_kernel(const GroupedWgradArguments& a, cudaStream_t stream) {
  constexpr int kBytes = sizeof(Shared) + alignof(Shared);
  const Operands operands = {
      make_bf16_tensor_map(a.left, {a.num_rows, a.num_left, a.left_stride}, {kRows, kBox}),
      make_bf16_tensor_map(a.right, {a.num_rows, a.num_right, a.right_stride}, {kRows, kBox})};
  int device = 0;
  int num_processors = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(
      cudaDeviceGetAttribute(&num_processors, cudaDevAttrMultiProcessorCount, device));
  const auto kernel = grouped_wgrad_kernel<G, kFours>;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const int blocks = num_processors / kCluster * kCluster;
  kernel<<<blocks, kThreads, kBytes, stream>>>(operands, a);
}

template <typename G>
void launch_type(const GroupedWgradArguments& a, cudaStream_t stream) {
  a.num_right % 8 == 0 && can_vectorize(a.num_right, sizeof(G), a.target.grad)
      ? launch_kernel<G, true>(a, stream)
      : launch_kernel<G, false>(a, stream);
}

}  // namespace

void launch_grouped_wgrad(const GroupedWgradArguments& arguments, void* stream) {
  if (arguments.num_groups == 0 || arguments.num_left == 0 || arguments.num_right == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.target.dtype == DataType::kBFloat16 ? launch_type<__nv_bfloat16>(arguments, on)
                                                : launch_type<float>(arguments, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

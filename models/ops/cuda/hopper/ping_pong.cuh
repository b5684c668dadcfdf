// Persistent warp-specialized ping-pong GEMM for Hopper, in the form of CUTLASS's kernels
// (github.com/NVIDIA/cutlass, media/docs/cpp/efficient_gemm.md). One producer warp group copies
// both operands by TMA into stages of shared memory. Two consumer warp groups alternate between
// tiles: one runs its mainloop while the other runs its epilogue. The two blocks of a cluster work
// on neighbouring tiles and share the copies of the operand that both read (TMA multicast).
//
// A CollectiveMainloop defines the product and the epilogue:
//    kRows, kColumns           of a tile: a multiple of 64, and a width that wgmma() takes
//    kLeft, kRight             majors of the operands
//    Arguments                 kernel argument
//    Tile                      has num_stages, at least 1: the K dimension in stages of 64
//    TileScheduler(arguments)  .next(tile) gives the block's tiles one after another; the blocks
//                              of a cluster get equally many, with the same num_stages
//    copy(operands, arguments, tile, i, stage, full)   one thread: this block's part of stage i
//    CollectiveMainloop(arguments, tile)   a consumer warp group, before the mainloop
//    .begin()                  while the last wgmma of the tile is in flight
//    .write(sums)              epilogue, when the accumulators are complete
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/cluster.cuh"
#include "models/ops/cuda/hopper/tensor_map.h"
#include "models/ops/cuda/hopper/tma.cuh"
#include "models/ops/cuda/hopper/wgmma.cuh"

namespace packtrain {
namespace device {

constexpr int kStageDepth = 64;  // K elements of a stage
constexpr int kMmaRows = 64;     // rows of one wgmma
constexpr int kClusterSize = 2;  // blocks
constexpr int kWarpGroupThreads = 128;
constexpr int kPingPongThreads = 3 * kWarpGroupThreads;

// A TMA box: 64 rows of 128 bytes.
constexpr int kBoxNumel = 64 * 64;
constexpr int kBoxBytes = kBoxNumel * 2;

struct Operands {
  CUtensorMap left;
  CUtensorMap right;
};

template <typename CollectiveMainloop>
struct TileAccumulator {
  Accumulator<CollectiveMainloop::kColumns> parts[CollectiveMainloop::kRows / kMmaRows];
};

template <typename CollectiveMainloop>
struct Stage {
  __nv_bfloat16 left[CollectiveMainloop::kRows * kStageDepth];
  __nv_bfloat16 right[CollectiveMainloop::kColumns * kStageDepth];
};

template <typename CollectiveMainloop>
struct PingPongSharedStorage {
  // As many stages as fit the 227 KiB of a block. The other 7 KiB hold the barriers and the
  // alignment. A swizzle atom is 8 rows of 128 bytes, so stages start at multiples of 1,024 bytes.
  static constexpr int kStages = 220 * 1024 / sizeof(Stage<CollectiveMainloop>);
  alignas(1024) Stage<CollectiveMainloop> stages[kStages];
  Barrier full[kStages];
  Barrier empty[kStages];
  Barrier turns[2];  // ordered sequence barrier: the other group has issued its mainloop
};

// Index and phase parity of a stage, as CUTLASS's PipelineState. Stages are filled in a circle, and
// the parity flips with each round.
template <int kStages>
struct PipelineState {
  int count = 0;

  __device__ int stage() const { return count % kStages; }
  __device__ int parity() const { return count / kStages % 2; }
};

// Producer loop of one thread.
template <typename CollectiveMainloop>
__device__ void produce(const Operands& operands, const typename CollectiveMainloop::Arguments& a,
                        PingPongSharedStorage<CollectiveMainloop>& memory) {
  typename CollectiveMainloop::TileScheduler tiles(a);
  PipelineState<PingPongSharedStorage<CollectiveMainloop>::kStages> state;
  for (typename CollectiveMainloop::Tile tile; tiles.next(tile);) {
    for (int i = 0; i < tile.num_stages; ++i, ++state.count) {
      Stage<CollectiveMainloop>& stage = memory.stages[state.stage()];
      Barrier& full = memory.full[state.stage()];
      // producer_acquire: the parity is inverted, so that the first round passes on new barriers.
      memory.empty[state.stage()].wait(state.parity() ^ 1);
      // The bytes include those that the other block multicasts to this stage. They may come before
      // this call: the phase still waits for this arrival.
      full.arrive_and_expect_tx(sizeof(stage));
      CollectiveMainloop::copy(operands, a, tile, i, stage, full);
    }
  }
}

// Descriptor of the step-th 16 elements of K. K-major operands advance 32 bytes inside the swizzled
// row, MN-major ones 16 rows.
template <Major kMajor>
__device__ std::uint64_t operand(std::uint32_t address, int step) {
  return kMajor == Major::kK ? make_smem_descriptor_k(address + step * 32)
                             : make_smem_descriptor_mn(address + step * 16 * 128, kBoxBytes);
}

template <typename CollectiveMainloop>
__device__ void mma_stage(const Stage<CollectiveMainloop>& stage,
                          TileAccumulator<CollectiveMainloop>& sums, bool add) {
  const std::uint32_t left = shared_address(stage.left);
  const std::uint32_t right = shared_address(stage.right);
#pragma unroll
  for (int step = 0; step < kStageDepth / 16; ++step) {
#pragma unroll
    for (int part = 0; part < CollectiveMainloop::kRows / kMmaRows; ++part) {
      wgmma<CollectiveMainloop::kLeft, CollectiveMainloop::kRight>(
          sums.parts[part], operand<CollectiveMainloop::kLeft>(left + part * kBoxBytes, step),
          operand<CollectiveMainloop::kRight>(right, step), add || step > 0);
    }
  }
}

template <int kLeft, typename CollectiveMainloop>
__device__ void warpgroup_wait_tile(TileAccumulator<CollectiveMainloop>& sums) {
#pragma unroll
  for (auto& part : sums.parts) warpgroup_wait<kLeft>(part);
}

// consumer_release: one lane of each warp arrives at the empty barrier of both blocks. Both
// producers write to this stage by multicast.
template <typename CollectiveMainloop>
__device__ void consumer_release(PingPongSharedStorage<CollectiveMainloop>& memory, int stage) {
  if (threadIdx.x % 32 == 0) {
    for (int rank = 0; rank < kClusterSize; ++rank) memory.empty[stage].arrive_cluster(rank);
  }
}

// Mainloop of a tile. Returns with the wgmma of the last stage in flight; the caller waits and
// releases that stage.
template <typename CollectiveMainloop>
__device__ void mma_tile(const typename CollectiveMainloop::Tile& tile,
                         PingPongSharedStorage<CollectiveMainloop>& memory,
                         PipelineState<PingPongSharedStorage<CollectiveMainloop>::kStages>& state,
                         TileAccumulator<CollectiveMainloop>& sums) {
  int previous = 0;
  for (int i = 0; i < tile.num_stages; ++i, ++state.count) {
    // consumer_wait: TMA has filled this stage.
    memory.full[state.stage()].wait(state.parity());
#pragma unroll
    for (auto& part : sums.parts) warpgroup_arrive(part);
    mma_stage<CollectiveMainloop>(memory.stages[state.stage()], sums, i > 0);
    warpgroup_commit_batch();
    // One group stays in flight, so that the tensor cores do not idle. The previous stage has been
    // read and can be refilled.
    warpgroup_wait_tile<1>(sums);
    if (i > 0) consumer_release(memory, previous);
    previous = state.stage();
  }
}

template <typename CollectiveMainloop>
__device__ void consume(const typename CollectiveMainloop::Arguments& a,
                        PingPongSharedStorage<CollectiveMainloop>& memory) {
  constexpr int kStages = PingPongSharedStorage<CollectiveMainloop>::kStages;
  // Both groups walk the same tiles. Each one skips the stages of the other group's tiles, so that
  // its stage index and parity stay those of the producer.
  const int group = threadIdx.x / kWarpGroupThreads - 1;
  typename CollectiveMainloop::TileScheduler tiles(a);
  PipelineState<kStages> state;
  int tile_owner = 0;
  int parity = group ^ 1;  // inverted for group 0: no group comes before its first tile
  for (typename CollectiveMainloop::Tile tile; tiles.next(tile); tile_owner ^= 1) {
    if (tile_owner != group) {
      state.count += tile.num_stages;
      continue;
    }
    CollectiveMainloop mainloop(a, tile);
    TileAccumulator<CollectiveMainloop> sums;
    // Mainloops of the two groups run one after another, in the order of tiles. Run together they
    // would share the tensor cores, and these would then idle during both epilogues. The order also
    // keeps parities unambiguous. All earlier stages are filled when this group starts, so a full
    // barrier is at most one phase away from the awaited one.
    memory.turns[group].wait(parity);
    parity ^= 1;
    mma_tile<CollectiveMainloop>(tile, memory, state, sums);
    // All wgmma are issued, so those of the other group follow without a gap.
    if (threadIdx.x % 32 == 0) memory.turns[group ^ 1].arrive();
    mainloop.begin();
    warpgroup_wait_tile<0>(sums);
    consumer_release(memory, (state.count - 1) % kStages);
    mainloop.write(sums);
  }
}

template <typename CollectiveMainloop>
__global__ void __launch_bounds__(kPingPongThreads, 1) __cluster_dims__(kClusterSize, 1, 1)
    ping_pong_kernel(const __grid_constant__ Operands operands,
                     const __grid_constant__ typename CollectiveMainloop::Arguments a) {
  // Launch bounds give 168 registers to each of 384 threads. 24 + 2 x 240 = 3 x 168: the producer
  // gives up what it does not need, and a consumer can hold up to 192 accumulators.
  constexpr int kProducerRegisters = 24;
  constexpr int kConsumerRegisters = 240;
  using Memory = PingPongSharedStorage<CollectiveMainloop>;
  extern __shared__ unsigned char bytes[];
  const std::uintptr_t aligned = (reinterpret_cast<std::uintptr_t>(bytes) + alignof(Memory) - 1) /
                                 alignof(Memory) * alignof(Memory);
  Memory& memory = *reinterpret_cast<Memory*>(aligned);
  if (threadIdx.x == 0) {
    for (int s = 0; s < Memory::kStages; ++s) {
      // full: one arrival of the producer, plus bytes. empty: four warps of the consumer group that
      // read this stage, in each block of the cluster.
      memory.full[s].init(1);
      memory.empty[s].init(kClusterSize * kWarpGroupThreads / 32);
    }
    for (Barrier& state : memory.turns) state.init(kWarpGroupThreads / 32);
    // The other block may arrive at or copy to these barriers right after cluster_sync().
    fence_barrier_init();
  }
  cluster_sync();
  if (threadIdx.x < kWarpGroupThreads) {
    warpgroup_reg_dealloc<kProducerRegisters>();
    // The warp reconverges after the one producer thread: cluster_sync() is an aligned barrier.
    if (threadIdx.x == 0) produce<CollectiveMainloop>(operands, a, memory);
    __syncwarp();
  } else {
    warpgroup_reg_alloc<kConsumerRegisters>();
    consume<CollectiveMainloop>(a, memory);
  }
  cluster_sync();  // a block must not exit while its peer still arrives at its barriers
}

// First tile of this cluster, and the stride to its next tile.
__device__ inline int first_cluster_tile() {
  return static_cast<int>(blockIdx.x) / kClusterSize;
}
__device__ inline int num_clusters() {
  return static_cast<int>(gridDim.x) / kClusterSize;
}

}  // namespace device

template <typename CollectiveMainloop>
void launch_ping_pong(const device::Operands& operands,
                      const typename CollectiveMainloop::Arguments& a, cudaStream_t stream) {
  using Memory = device::PingPongSharedStorage<CollectiveMainloop>;
  constexpr int kBytes = sizeof(Memory) + alignof(Memory);
  int device = 0;
  int num_processors = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(
      cudaDeviceGetAttribute(&num_processors, cudaDevAttrMultiProcessorCount, device));
  const auto kernel = device::ping_pong_kernel<CollectiveMainloop>;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const int blocks = num_processors / device::kClusterSize * device::kClusterSize;
  kernel<<<blocks, device::kPingPongThreads, kBytes, stream>>>(operands, a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

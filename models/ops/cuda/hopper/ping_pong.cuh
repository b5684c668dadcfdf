// Matrix products tile by tile, each block at work from the first to the last: one warp group keeps
// copying both operands into stages of shared memory, and two take turns at the tiles: while one
// multiplies, the other one writes what it has. Two blocks of a cluster work on neighbouring tiles
// and fetch what both need once. The form is that of CUTLASS's persistent warp-specialized
// ping-pong kernels (github.com/NVIDIA/cutlass, media/docs/cpp/efficient_gemm.md). Hopper alone.
//
// A Product says what is multiplied and what becomes of the sums:
//   kRows, kColumns           of a tile: parts of 64 rows; columns as multiply() takes them
//   kLeft, kRight             majors of the operands
//   Arguments                 given to the kernel
//   Tile                      with num_stages, at least 1: the sums' length in stages of 64
//   Tiles(arguments)          .next(tile): the block's tiles one after another; the blocks of a
//                             cluster have as many, of as many stages
//   copy(operands, arguments, tile, i, stage, full)   its share of a tile's i-th stage, one thread
//   Product(arguments, tile), .begin(), .write(sums)  a warp group: before a tile's products, while
//                             the last ones are under way, and behind them
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

constexpr int kStageDepth = 64;  // of the sums' length
constexpr int kMmaRows = 64;     // of a tile, that one instruction makes
constexpr int kClusterSize = 2;  // blocks of a cluster
constexpr int kWarpGroupThreads = 128;
constexpr int kPingPongThreads = 3 * kWarpGroupThreads;

// An operand in boxes of 64 rows of 128 bytes.
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
  static constexpr int kStages = 220 * 1024 / sizeof(Stage<CollectiveMainloop>);
  alignas(1024) Stage<CollectiveMainloop> stages[kStages];
  Barrier full[kStages];
  Barrier empty[kStages];
  Barrier turns[2];  // of the warp groups: the other one has asked for all its products
};

// Stages in the order in which they are filled.
template <int kStages>
struct PipelineState {
  int count = 0;

  __device__ int stage() const { return count % kStages; }
  __device__ int parity() const { return count / kStages % 2; }
};

// One thread.
template <typename CollectiveMainloop>
__device__ void produce(const Operands& operands, const typename CollectiveMainloop::Arguments& a,
                        PingPongSharedStorage<CollectiveMainloop>& memory) {
  typename CollectiveMainloop::TileScheduler tiles(a);
  PipelineState<PingPongSharedStorage<CollectiveMainloop>::kStages> state;
  for (typename CollectiveMainloop::Tile tile; tiles.next(tile);) {
    for (int i = 0; i < tile.num_stages; ++i, ++state.count) {
      Stage<CollectiveMainloop>& stage = memory.stages[state.stage()];
      Barrier& full = memory.full[state.stage()];
      memory.empty[state.stage()].wait(state.parity() ^ 1);
      full.arrive_and_expect_tx(sizeof(stage));
      CollectiveMainloop::copy(operands, a, tile, i, stage, full);
    }
  }
}

// 16 of a stage's depth, from the `step`-th on.
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

// This warp has read a stage: so it tells both blocks that write to it.
template <typename CollectiveMainloop>
__device__ void consumer_release(PingPongSharedStorage<CollectiveMainloop>& memory, int stage) {
  if (threadIdx.x % 32 == 0) {
    for (int rank = 0; rank < kClusterSize; ++rank) memory.empty[stage].arrive_cluster(rank);
  }
}

// Returns with the last stage's products under way.
template <typename CollectiveMainloop>
__device__ void mma_tile(const typename CollectiveMainloop::Tile& tile,
                         PingPongSharedStorage<CollectiveMainloop>& memory,
                         PipelineState<PingPongSharedStorage<CollectiveMainloop>::kStages>& state,
                         TileAccumulator<CollectiveMainloop>& sums) {
  int previous = 0;
  for (int i = 0; i < tile.num_stages; ++i, ++state.count) {
    memory.full[state.stage()].wait(state.parity());
#pragma unroll
    for (auto& part : sums.parts) warpgroup_arrive(part);
    mma_stage<CollectiveMainloop>(memory.stages[state.stage()], sums, i > 0);
    warpgroup_commit_batch();
    warpgroup_wait_tile<1>(sums);
    if (i > 0) consumer_release(memory, previous);
    previous = state.stage();
  }
}

template <typename CollectiveMainloop>
__device__ void consume(const typename CollectiveMainloop::Arguments& a,
                        PingPongSharedStorage<CollectiveMainloop>& memory) {
  constexpr int kStages = PingPongSharedStorage<CollectiveMainloop>::kStages;
  const int group = threadIdx.x / kWarpGroupThreads - 1;
  typename CollectiveMainloop::TileScheduler tiles(a);
  PipelineState<kStages> state;
  int tile_owner = 0;
  int parity = group ^ 1;  // nobody is before the first group's first tile
  for (typename CollectiveMainloop::Tile tile; tiles.next(tile); tile_owner ^= 1) {
    if (tile_owner != group) {
      state.count += tile.num_stages;
      continue;
    }
    CollectiveMainloop mainloop(a, tile);
    TileAccumulator<CollectiveMainloop> sums;
    memory.turns[group].wait(parity);
    parity ^= 1;
    mma_tile<CollectiveMainloop>(tile, memory, state, sums);
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
  constexpr int kProducerRegisters = 24;
  constexpr int kConsumerRegisters = 240;
  using Memory = PingPongSharedStorage<CollectiveMainloop>;
  extern __shared__ unsigned char bytes[];
  const std::uintptr_t aligned = (reinterpret_cast<std::uintptr_t>(bytes) + alignof(Memory) - 1) /
                                 alignof(Memory) * alignof(Memory);
  Memory& memory = *reinterpret_cast<Memory*>(aligned);
  if (threadIdx.x == 0) {
    for (int s = 0; s < Memory::kStages; ++s) {
      memory.full[s].init(1);
      memory.empty[s].init(kClusterSize * kWarpGroupThreads / 32);
    }
    for (Barrier& state : memory.turns) state.init(kWarpGroupThreads / 32);
    fence_barrier_init();
  }
  cluster_sync();
  if (threadIdx.x < kWarpGroupThreads) {
    warpgroup_reg_dealloc<kProducerRegisters>();
    if (threadIdx.x == 0) produce<CollectiveMainloop>(operands, a, memory);
    __syncwarp();
  } else {
    warpgroup_reg_alloc<kConsumerRegisters>();
    consume<CollectiveMainloop>(a, memory);
  }
  cluster_sync();  // no block ends while another one arrives at its barriers
}

// The first tile's number of this block's pair, and how far it is to the next.
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

// Persistent warp-specialized GEMM kernels for Hopper, in the form of CUTLASS's
// (github.com/NVIDIA/cutlass, media/docs/cpp/efficient_gemm.md). One producer warp group copies
// both operands by TMA into stages of shared memory. Two consumer warp groups multiply. The two
// blocks of a cluster work on neighbouring tiles and share the copies of the operand that both read
// (TMA multicast). All our GEMMs share this producer, pipeline and mainloop. A kernel schedule
// divides the tiles over the consumer groups. PingPong (ping_pong.cuh) gives each one its own
// tiles. Cooperative (cooperative.cuh) gives each one half of the rows of every tile.
//
// A CollectiveMainloop defines the product and the epilogue:
//    kRows, kColumns           of a tile: a multiple of 64, and a width that wgmma() takes
//    kLeft, kRight             majors of the operands, and their type
//    Arguments                 kernel argument
//    Tile                      has num_stages: the K dimension in stages of 128 bytes
//    TileScheduler(arguments)  .next(tile) gives the block's tiles one after another; the blocks
//                              of a cluster get equally many, with the same num_stages
//    copy(operands, arguments, tile, i, stage, full)   one thread: this block's part of stage i
//    CollectiveMainloop(arguments, tile)   a consumer warp group, before the mainloop
//    .prepare(stage, i)        after TMA has filled stage i; may change it
//    .num_steps(i)             of 16 elements of K that stage i has, 4 at most
//    .begin()                  while the last wgmma of the tile is in flight
//    .write(sums)              epilogue, when the accumulators are complete
//
// A kernel schedule has the CollectiveMainloop, SharedStorage (derived from PipelineStorage),
// register counts, the number of consumer warps that read a stage, and consume().
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
constexpr int kStepDepth = 16;   // K elements of one wgmma
constexpr int kStageSteps = kStageDepth / kStepDepth;
constexpr int kMmaRows = 64;     // rows of one wgmma
constexpr int kClusterSize = 2;  // blocks
constexpr int kWarpGroupThreads = 128;
constexpr int kWarpGroupWarps = kWarpGroupThreads / 32;
constexpr int kGemmThreads = 3 * kWarpGroupThreads;

// A TMA box: 64 rows of 128 bytes.
constexpr int kBoxNumel = 64 * 64;
constexpr int kBoxBytes = kBoxNumel * 2;

struct Operands {
  CUtensorMap left;
  CUtensorMap right;
};

// Accumulators of a consumer warp group for kRows rows of a tile.
template <int kRows, int kColumns>
struct TileAccumulator {
  static constexpr int kParts = kRows / kMmaRows;
  Accumulator<kColumns> parts[kParts];
};

template <typename CollectiveMainloop>
struct Stage {
  __nv_bfloat16 left[CollectiveMainloop::kRows * kStageDepth];
  __nv_bfloat16 right[CollectiveMainloop::kColumns * kStageDepth];
};

// The shared memory of a pipeline.
template <typename CollectiveMainloop>
struct PipelineStorage {
  // As many stages as fit the 227 KiB of a block. The other 7 KiB hold the barriers and the
  // alignment. A swizzle atom is 8 rows of 128 bytes, so stages start at multiples of 1,024 bytes.
  static constexpr unsigned kStages = 220 * 1024 / sizeof(Stage<CollectiveMainloop>);
  alignas(1024) Stage<CollectiveMainloop> stages[kStages];
  Barrier full[kStages];
  Barrier empty[kStages];
};

// Index and phase parity of a stage, as CUTLASS's PipelineState. Stages are filled in a circle, and
// the parity flips with each round.
template <unsigned kStages>
struct PipelineState {
  unsigned count = 0;

  __device__ unsigned stage() const { return count % kStages; }
  __device__ int parity() const { return static_cast<int>(count / kStages % 2); }
};

// Producer loop of one thread.
template <typename CollectiveMainloop>
__device__ void produce(const Operands& operands, const typename CollectiveMainloop::Arguments& a,
                        PipelineStorage<CollectiveMainloop>& memory) {
  typename CollectiveMainloop::TileScheduler tiles(a);
  PipelineState<PipelineStorage<CollectiveMainloop>::kStages> state;
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

// Descriptor of the step-th 16 elements of K, or 32 of 8-bit floats. K-major operands advance 32
// bytes inside the swizzled row, MN-major ones 16 rows.
template <Major kMajor>
__device__ std::uint64_t operand(std::uint32_t address, int step) {
  return kMajor == Major::kMN ? make_smem_descriptor_mn(address + step * 16 * 128, kBoxBytes)
                              : make_smem_descriptor_k(address + step * 32);
}

// Multiplies the first kSteps steps of a stage: the rows from `first_part` on, in parts of 64 rows.
// Commits the wgmma as one group.
template <int kSteps, typename CollectiveMainloop, typename Sums>
__device__ void mma_steps(const Stage<CollectiveMainloop>& stage, int first_part, Sums& sums,
                          bool add) {
  const std::uint32_t left = shared_address(stage.left) + first_part * kBoxBytes;
  const std::uint32_t right = shared_address(stage.right);
#pragma unroll
  for (auto& part : sums.parts) warpgroup_arrive(part);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int part = 0; part < Sums::kParts; ++part) {
      const std::uint64_t left_operand =
          operand<CollectiveMainloop::kLeft>(left + part * kBoxBytes, step);
      const std::uint64_t right_operand = operand<CollectiveMainloop::kRight>(right, step);
      if constexpr (CollectiveMainloop::kRight == Major::kE4M3) {
        wgmma_fp8<CollectiveMainloop::kLeft>(sums.parts[part], left_operand, right_operand,
                                             add || step > 0);
      } else {
        wgmma<CollectiveMainloop::kLeft, CollectiveMainloop::kRight>(
            sums.parts[part], left_operand, right_operand, add || step > 0);
      }
    }
  }
  warpgroup_commit_batch();
}

// A number of steps is known when this is compiled, so that wgmma follow without a branch between.
template <typename CollectiveMainloop, typename Sums>
__device__ void mma_stage(const Stage<CollectiveMainloop>& stage, int first_part, Sums& sums,
                          bool add, int num_steps) {
  if (num_steps == kStageSteps) {
    mma_steps<kStageSteps>(stage, first_part, sums, add);
  } else if (num_steps == 1) {
    mma_steps<1>(stage, first_part, sums, add);
  } else if (num_steps == 2) {
    mma_steps<2>(stage, first_part, sums, add);
  } else {
    mma_steps<3>(stage, first_part, sums, add);
  }
}

template <int kLeft, typename Sums>
__device__ void warpgroup_wait_tile(Sums& sums) {
#pragma unroll
  for (auto& part : sums.parts) warpgroup_wait<kLeft>(part);
}

// consumer_release: one lane of each warp arrives at the empty barrier of both blocks. Both
// producers write to this stage by multicast.
template <typename CollectiveMainloop>
__device__ void consumer_release(PipelineStorage<CollectiveMainloop>& memory, unsigned stage) {
  if (threadIdx.x % 32 == 0) {
    for (int rank = 0; rank < kClusterSize; ++rank) memory.empty[stage].arrive_cluster(rank);
  }
}

// Mainloop of a warp group: the rows of a tile from `first_part` on. Returns with the wgmma of the
// last stage in flight; the caller waits and releases that stage.
template <typename CollectiveMainloop, typename Sums>
__device__ void mma_tile(const CollectiveMainloop& mainloop, int num_stages, int first_part,
                         PipelineStorage<CollectiveMainloop>& memory,
                         PipelineState<PipelineStorage<CollectiveMainloop>::kStages>& state,
                         Sums& sums) {
  unsigned previous = 0;
  for (int i = 0; i < num_stages; ++i, ++state.count) {
    Stage<CollectiveMainloop>& stage = memory.stages[state.stage()];
    // consumer_wait: TMA has filled this stage.
    memory.full[state.stage()].wait(state.parity());
    mainloop.prepare(stage, i);
    mma_stage<CollectiveMainloop>(stage, first_part, sums, i > 0, mainloop.num_steps(i));
    // One group stays in flight, so that the tensor cores do not idle. The previous stage has been
    // read and can be refilled.
    warpgroup_wait_tile<1>(sums);
    if (i > 0) consumer_release(memory, previous);
    previous = state.stage();
  }
}

template <typename Schedule>
__global__ void __launch_bounds__(kGemmThreads, 1) __cluster_dims__(kClusterSize, 1, 1)
    gemm_kernel(const __grid_constant__ Operands operands,
                const __grid_constant__ typename Schedule::Mainloop::Arguments a) {
  using Memory = typename Schedule::SharedStorage;
  extern __shared__ unsigned char bytes[];
  const std::uintptr_t aligned = (reinterpret_cast<std::uintptr_t>(bytes) + alignof(Memory) - 1) /
                                 alignof(Memory) * alignof(Memory);
  Memory& memory = *reinterpret_cast<Memory*>(aligned);
  if (threadIdx.x == 0) {
    for (unsigned s = 0; s < Memory::kStages; ++s) {
      // full: one arrival of the producer, plus bytes. empty: the consumer warps that read this
      // stage, in each block of the cluster.
      memory.full[s].init(1);
      memory.empty[s].init(kClusterSize * Schedule::kWarpsOfStage);
    }
    Schedule::init(memory);
    // The other block may arrive at or copy to these barriers right after cluster_sync().
    fence_barrier_init();
  }
  cluster_sync();
  // Launch bounds give 168 registers to each of 384 threads. The producer gives up what it does
  // not need.
  static_assert(Schedule::kProducerRegisters + 2 * Schedule::kConsumerRegisters == 3 * 168);
  if (threadIdx.x < kWarpGroupThreads) {
    warpgroup_reg_dealloc<Schedule::kProducerRegisters>();
    // The warp reconverges after the one producer thread: cluster_sync() is an aligned barrier.
    if (threadIdx.x == 0) produce<typename Schedule::Mainloop>(operands, a, memory);
    __syncwarp();
  } else {
    warpgroup_reg_alloc<Schedule::kConsumerRegisters>();
    Schedule::consume(a, memory);
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

// Launches a kernel with as many blocks as the GPU has multiprocessors. Throws Error(kDevice).
template <typename Schedule>
void launch_gemm(const device::Operands& operands, const typename Schedule::Mainloop::Arguments& a,
                 cudaStream_t stream) {
  using Memory = typename Schedule::SharedStorage;
  constexpr int kBytes = sizeof(Memory) + alignof(Memory);
  int device = 0;
  int num_processors = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(
      cudaDeviceGetAttribute(&num_processors, cudaDevAttrMultiProcessorCount, device));
  const auto kernel = device::gemm_kernel<Schedule>;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const int blocks = num_processors / device::kClusterSize * device::kClusterSize;
  kernel<<<blocks, device::kGemmThreads, kBytes, stream>>>(operands, a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain

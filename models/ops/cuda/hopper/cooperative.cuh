// Kernel schedule of gemm_kernel.cuh: each of the two consumer warp groups computes half of the
// rows of every tile, as CUTLASS's cooperative kernels. For tiles whose accumulators do not fit one
// warp group. A tile may have no stages: it is skipped, without an epilogue. The CollectiveMainloop
// also has EpilogueStorage, shared memory that write(sums, storage) uses, and finish(), which each
// consumer thread calls after its last tile.
#pragma once

#include "models/ops/cuda/hopper/gemm_kernel.cuh"

namespace packtrain::device {

constexpr int kCooperativeThreads = 2 * kWarpGroupThreads;  // consumers

// Barrier of the consumer warps. The producer warp never arrives at barrier 0 in its loop, so
// __syncthreads() would hang.
__device__ inline void cooperative_sync() {
  asm volatile("bar.sync 1, %0;" ::"n"(kCooperativeThreads) : "memory");
}

template <typename CollectiveMainloop>
struct Cooperative {
  using Mainloop = CollectiveMainloop;

  struct SharedStorage : PipelineStorage<CollectiveMainloop> {
    alignas(1024) typename CollectiveMainloop::EpilogueStorage epilogue;
  };

  // A consumer holds 128 accumulators and what its epilogue reads ahead.
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters = 232;
  static constexpr int kWarpsOfStage = 2 * kWarpGroupWarps;  // both groups read each stage

  __device__ static void init(SharedStorage& /*memory*/) {}

  __device__ static void consume(const typename CollectiveMainloop::Arguments& a,
                                 SharedStorage& memory) {
    constexpr int kRows = CollectiveMainloop::kRows / 2;
    const int group = threadIdx.x / kWarpGroupThreads - 1;
    typename CollectiveMainloop::TileScheduler tiles(a);
    PipelineState<SharedStorage::kStages> state;
    for (typename CollectiveMainloop::Tile tile; tiles.next(tile);) {
      // The producer copies nothing for this tile either, so stages and parities stay equal.
      if (tile.num_stages == 0) continue;
      CollectiveMainloop mainloop(a, tile);
      TileAccumulator<kRows, CollectiveMainloop::kColumns> sums;
      mma_tile<CollectiveMainloop>(mainloop, tile.num_stages, group * kRows / kMmaRows, memory,
                                   state, sums);
      mainloop.begin();
      warpgroup_wait_tile<0>(sums);
      consumer_release<CollectiveMainloop>(memory, (state.count - 1) % SharedStorage::kStages);
      mainloop.write(sums, memory.epilogue);
    }
    CollectiveMainloop::finish();
  }
};

}  // namespace packtrain::device

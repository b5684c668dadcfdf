// Kernel schedule of gemm_kernel.cuh: the two consumer warp groups alternate between tiles, as
// CUTLASS's ping-pong kernels. One runs its mainloop while the other runs its epilogue. For tiles
// whose epilogue takes long. A tile has at least one stage.
#pragma once

#include "models/ops/cuda/hopper/gemm_kernel.cuh"

namespace packtrain::device {

template <typename CollectiveMainloop>
struct PingPong {
  using Mainloop = CollectiveMainloop;

  struct SharedStorage : PipelineStorage<CollectiveMainloop> {
    Barrier turns[2];  // ordered sequence barrier: the other group has issued its mainloop
  };

  // A consumer holds up to 192 accumulators.
  static constexpr int kProducerRegisters = 24;
  static constexpr int kConsumerRegisters = 240;
  static constexpr int kWarpsOfStage = kWarpGroupWarps;  // one group reads a stage

  __device__ static void init(SharedStorage& memory) {
    for (Barrier& turn : memory.turns) turn.init(kWarpGroupWarps);
  }

  __device__ static void consume(const typename CollectiveMainloop::Arguments& a,
                                 SharedStorage& memory) {
    constexpr unsigned kStages = SharedStorage::kStages;
    // Both groups walk the same tiles. Each one skips the stages of the other group's tiles, so
    // that its stage index and parity stay those of the producer.
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
      TileAccumulator<CollectiveMainloop::kRows, CollectiveMainloop::kColumns> sums;
      // Mainloops of the two groups run one after another, in the order of tiles. Run together they
      // would share the tensor cores, and these would then idle during both epilogues. The order
      // also keeps parities unambiguous. All earlier stages are filled when this group starts, so a
      // full barrier is at most one phase away from the awaited one.
      memory.turns[group].wait(parity);
      parity ^= 1;
      mma_tile<CollectiveMainloop>(mainloop, tile.num_stages, 0, memory, state, sums);
      // All wgmma are issued, so those of the other group follow without a gap.
      if (threadIdx.x % 32 == 0) memory.turns[group ^ 1].arrive();
      mainloop.begin();
      warpgroup_wait_tile<0>(sums);
      consumer_release<CollectiveMainloop>(memory, (state.count - 1) % kStages);
      mainloop.write(sums);
    }
  }
};

}  // namespace packtrain::device

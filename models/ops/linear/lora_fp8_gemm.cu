// Products of 8-bit floats with low-rank modules of bfloat16. Accumulators have the dense sum,
// which is multiplied by both scales. Then they get the modules' parts, and are rounded once.
// Tensor cores sum products of 8-bit floats with about 14 bits (ops/fp8/fp8_linear.h).
#include "models/ops/linear/lora_gemm_mainloop.cuh"

namespace packtrain {
namespace {

using device::Major;

// The schedule Cooperative with two mainloops.
template <typename CollectiveMainloop>
struct ScaledCooperative : device::Cooperative<CollectiveMainloop> {
  using SharedStorage = typename device::Cooperative<CollectiveMainloop>::SharedStorage;
  using State = device::PipelineState<SharedStorage::kStages>;
  using Sums = device::TileAccumulator<CollectiveMainloop::kRows / 2, CollectiveMainloop::kColumns>;
  static_assert(Sums::kParts == 1);

  __device__ static void consume(const typename CollectiveMainloop::Arguments& a,
                                 SharedStorage& memory) {
    const int group = threadIdx.x / device::kWarpGroupThreads - 1;
    const float factor = a.left_scale[0] * a.right_scale[0];
    typename CollectiveMainloop::TileScheduler tiles(a);
    State state;
    for (typename CollectiveMainloop::Tile tile; tiles.next(tile);) {
      CollectiveMainloop mainloop(a, tile);
      Sums sums;
      device::mma_tile<CollectiveMainloop>(mainloop, tile.num_dense, group, memory, state, sums);
      device::warpgroup_wait_tile<0>(sums);
      release(memory, state);
#pragma unroll
      for (float& value : sums.parts[0].values) value *= factor;
      for (int i = tile.num_dense; i < tile.num_stages; ++i, ++state.count) {
        memory.full[state.stage()].wait(state.parity());
        multiply_low(memory.stages[state.stage()], group, mainloop.num_steps(i), sums);
        device::warpgroup_wait_tile<0>(sums);
        device::consumer_release<CollectiveMainloop>(memory, state.stage());
      }
      mainloop.begin();
      mainloop.write(sums, memory.epilogue);
    }
    CollectiveMainloop::finish();
  }

 private:
  __device__ static void release(SharedStorage& memory, const State& state) {
    device::consumer_release<CollectiveMainloop>(memory,
                                                 (state.count - 1) % SharedStorage::kStages);
  }

  // Adds the product of a stage in bfloat16.
  __device__ static void multiply_low(const device::Stage<CollectiveMainloop>& stage, int group,
                                      int num_steps, Sums& sums) {
    const std::uint32_t left = device::shared_address(stage.left) + group * device::kBoxBytes;
    const std::uint32_t right = device::shared_address(stage.right);
    device::warpgroup_arrive(sums.parts[0]);
#pragma unroll
    for (int step = 0; step < device::kStageSteps; ++step) {
      if (step >= num_steps) break;
      device::wgmma<Major::kK, Major::kK>(sums.parts[0], device::operand<Major::kK>(left, step),
                                          device::operand<Major::kK>(right, step), /*add=*/true);
    }
    device::warpgroup_commit_batch();
  }
};

template <Major kLeft>
using Schedule = ScaledCooperative<device::LoraGemm<kLeft, Major::kE4M3>>;

}  // namespace

void launch_lora_fp8_gemm(const LoraGemmArguments& arguments, Fp8Format left, void* stream) {
  if (left == Fp8Format::kE4M3) {
    launch_low_rank_gemm<Schedule<Major::kE4M3>>(arguments, stream);
  } else {
    launch_low_rank_gemm<Schedule<Major::kE5M2>>(arguments, stream);
  }
}

}  // namespace packtrain

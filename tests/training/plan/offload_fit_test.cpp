// memory.offload where memory.fit chooses it.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/training/small_decoder.h"
#include "training/plan/memory_fit.h"

namespace packtrain::offload_fit_test {
namespace {

FitInput gpu_input() {
  FitInput input;
  input.config.precision.compute = Precision::kBFloat16;
  input.config.data.max_length = 512;
  input.config.batch.global_batch_size = 128;
  input.config.batch.max_tokens_per_micro_batch = 4096;
  input.decoder = small_decoder();
  input.decoder.num_layers = 12;
  input.ranks = {DeviceKind::kCuda, 1, 1};
  constexpr std::int64_t kPlenty = std::int64_t{1} << 50;
  input.limit = {kPlenty, kPlenty, "a test's"};
  input.work = step_work(input.config, nullptr, 1);
  return input;
}

TEST(OffloadFit, TheOptimizersStateIsOffloadedWhereActivationsAreNotEnough) {
  FitInput input = gpu_input();
  input.config.memory.offload = Offload::kActivations;
  const std::int64_t without = least_memory(input).bytes;
  input.config.memory.offload = Offload::kOptimizer;
  const std::int64_t state = least_memory(input).bytes;
  ASSERT_LT(state, without);
  input.config.memory.offload.reset();
  input.limit.bytes = input.limit.with_reserve = without;
  EXPECT_EQ(fit_memory(input)->chosen.settings.offload, Offload::kActivations);
  input.limit.bytes = input.limit.with_reserve = state;
  EXPECT_EQ(fit_memory(input)->chosen.settings.offload, Offload::kOptimizer);
  input.limit.bytes = input.limit.with_reserve = state - 1;
  EXPECT_EQ(fit_memory(input)->chosen.settings.offload, Offload::kActivationsAndOptimizer);
}

TEST(OffloadFit, AnOffloadedStateTakesTheTimeOfItsCopies) {
  const FitInput input = gpu_input();
  const StepTimeModel time(input.config, input.decoder, input.ranks, input.work);
  const MemorySettings kept{Recompute::kNone, kMinGatherSlots, 4096};
  MemorySettings offloaded = kept;
  offloaded.offload = Offload::kOptimizer;
  const MemoryPlan plan = plan_with(input, offloaded);
  const double more =
      static_cast<double>(sum_bytes(plan.offloaded_state)) / kHostCopyBytesPerSecond;
  EXPECT_NEAR(time.seconds(offloaded) - time.seconds(kept), more,
              0.05 * more);  // the plan counts gaps
}

}  // namespace
}  // namespace packtrain::offload_fit_test

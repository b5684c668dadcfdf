// Times of the settings that memory.fit compares.
#include "training/plan/step_time_model.h"

#include <gtest/gtest.h>

#include "tests/training/plan/fit_input.h"
#include "training/plan/memory_fit.h"

namespace packtrain {
namespace {

TEST(StepTime, GrowsWithRecomputeAndWithMicroBatches) {
  for (const MemoryRanks& ranks : kLayouts) {
    const FitInput input = input_with(ranks, kPlenty);
    const StepTimeModel time(input.config, input.decoder, ranks, input.work);
    double last = 0;
    for (const RecomputeByLayer& recompute : recompute_choices(input.config.memory, 12)) {
      const double seconds = time.seconds({recompute, 12, 4096});
      EXPECT_GE(seconds, last);
      last = seconds;
    }
    last = 0;
    for (const std::int64_t tokens : token_choices(input.config, ranks.num_ranks)) {
      const double seconds = time.seconds({Recompute::kNone, 3, tokens});
      EXPECT_GE(seconds, last);
      last = seconds;
    }
    EXPECT_LE(time.seconds({Recompute::kNone, 12, 512}), time.seconds({Recompute::kNone, 3, 512}));
  }
}

TEST(StepTime, OfFullRecomputeIsOneMoreForwardOfTheLayers) {
  FitInput input = input_with(kLayouts[1], kPlenty);
  input.decoder.hidden_size = 4096;
  input.decoder.intermediate_size = 14336;
  input.decoder.num_heads = 32;
  input.decoder.num_kv_heads = 8;
  input.decoder.head_dim = 128;
  const StepTimeModel time(input.config, input.decoder, input.ranks, input.work);
  const double none = time.seconds({Recompute::kNone, 3, 4096});
  EXPECT_NEAR(time.seconds({Recompute::kFull, 3, 4096}) / none, 4.0 / 3, 0.05);
  EXPECT_NEAR(time.seconds({{Recompute::kFull, 6, Recompute::kNone}, 3, 4096}) / none, 7.0 / 6,
              0.03);
  EXPECT_LT(time.seconds({Recompute::kSelective, 3, 4096}) / none, 1.05);
}

// 4.16 and 8 bits an element instead of 16.
TEST(StepTime, OfGathersIsThatOfStoredBytes) {
  FitInput input = input_with({DeviceKind::kCuda, 2, 2}, kPlenty);
  input.decoder.hidden_size = 4096;
  input.decoder.intermediate_size = 14336;
  input.config.model.frozen = {"layers.*"};
  input.work.num_tokens = 1;
  const auto seconds = [&](BaseStorage base) {
    input.config.model.base = base;
    return StepTimeModel(input.config, input.decoder, input.ranks, input.work)
        .seconds({Recompute::kNone, 3, 4096});
  };
  EXPECT_NEAR(seconds(BaseStorage::kNf4) / seconds(BaseStorage::kBFloat16), 4.16 / 16, 0.02);
  EXPECT_NEAR(seconds(BaseStorage::kFp8) / seconds(BaseStorage::kBFloat16), 8.0 / 16, 0.02);
}

}  // namespace
}  // namespace packtrain

// What groups that share rows mean for plans: copies of keys in memory, and models that cannot.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "framework/core/error.h"
#include "tests/training/small_decoder.h"
#include "training/plan/memory_plan.h"
#include "training/plan/plan_source.h"

namespace packtrain::shared_prefixes_test {
namespace {

TEST(SharedPrefixes, TakeMemoryForCopiesOfKeys) {
  Config config;
  const DecoderConfig decoder = small_decoder();
  const auto bytes = [&](std::optional<std::int64_t> num_keys) {
    return MemoryPlanner(config, decoder, {DeviceKind::kCuda, 1})
        .plan({.num_rows = 4096, .num_keys = num_keys})
        .allocated_bytes();
  };
  EXPECT_EQ(bytes(std::nullopt), bytes(0)) << "next tokens share nothing";
  EXPECT_GE(bytes(3 * 4096), bytes(4096));
  config.objective.kind = ObjectiveKind::kDpo;
  EXPECT_EQ(bytes(std::nullopt), bytes(2 * 4096));
  config.batch.share_prefixes = false;
  EXPECT_EQ(bytes(std::nullopt), bytes(0));
}

TEST(SharedPrefixes, AreRefusedWithRotaryPositionsThatDependOnTheLength) {
  Config config;
  config.objective.kind = ObjectiveKind::kDpo;
  DecoderConfig decoder = small_decoder();
  EXPECT_NO_THROW(plan_options(config, decoder, 1, 1024));
  decoder.rotary.scaling.kind = RotaryScaling::Kind::kDynamic;
  EXPECT_THROW(plan_options(config, decoder, 1, 1024), Error);
  config.batch.strategy = Strategy::kPadding;
  EXPECT_NO_THROW(plan_options(config, decoder, 1, 1024)) << "padded groups share nothing";
  config.batch.strategy = Strategy::kBalanced;
  config.batch.share_prefixes = false;
  EXPECT_NO_THROW(plan_options(config, decoder, 1, 1024));
  config.batch.share_prefixes = true;
  config.objective.kind = ObjectiveKind::kNextToken;
  EXPECT_NO_THROW(plan_options(config, decoder, 1, 1024));
}

}  // namespace
}  // namespace packtrain::shared_prefixes_test

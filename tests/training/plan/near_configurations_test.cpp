// A plan that cannot fit is answered with three configurations that do.
#include "training/plan/near_configurations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "tests/training/small_decoder.h"

namespace packtrain {
namespace {

// Has much state relative to its activations, so that ranks and moments matter.
DecoderConfig decoder_with_much_state() {
  DecoderConfig decoder = small_decoder();
  decoder.vocab_size = 1'000'000;
  return decoder;
}

FitInput input_below_least(const MemoryRanks& ranks, double share) {
  Config config;
  config.data.max_length = 1024;
  config.memory.offload = Offload::kActivations;  // the state stays, so that moments matter
  config.batch.max_tokens_per_micro_batch = 4096;
  FitInput input{config, decoder_with_much_state(), ranks, {}, {}};
  input.work = step_work(config, nullptr, ranks.num_ranks);
  const auto bytes =
      static_cast<std::int64_t>(share * static_cast<double>(least_memory(input).bytes));
  input.limit = {bytes, bytes, "a test's"};
  return input;
}

const NearConfiguration* named(const std::vector<NearConfiguration>& near, const char* text) {
  const auto found = std::ranges::find_if(near, [&](const NearConfiguration& each) {
    return each.settings.find(text) != std::string::npos;
  });
  return found == near.end() ? nullptr : &*found;
}

TEST(NearConfigurations, AreThreeThatFit) {
  for (const MemoryRanks& ranks :
       {MemoryRanks{DeviceKind::kCpu, 1, 1}, MemoryRanks{DeviceKind::kCuda, 2, 2},
        MemoryRanks{DeviceKind::kCuda, 8, 2}}) {
    for (const double share : {0.999, 0.9, 0.7}) {
      const FitInput input = input_below_least(ranks, share);
      ASSERT_FALSE(fit_memory(input).has_value());
      const std::vector<NearConfiguration> near = near_configurations(input);
      ASSERT_EQ(near.size(), 3U) << share << " of " << ranks.num_ranks << " ranks";
      for (const NearConfiguration& each : near) EXPECT_LE(each.bytes, input.limit.bytes);
    }
  }
}

TEST(NearConfigurations, HaveThePlannedSizeOfTheChange) {
  FitInput input = input_below_least({DeviceKind::kCpu, 1, 1}, 0.9);
  const std::vector<NearConfiguration> near = near_configurations(input);
  const NearConfiguration* moments = named(near, "optimizer.moments=bf16");
  ASSERT_NE(moments, nullptr);
  input.config.optimizer.moments = Moments::kBFloat16;
  EXPECT_EQ(least_memory(input).bytes, moments->bytes);
}

TEST(NearConfigurations, ThatChangeNumbersAreMarked) {
  const FitInput input = input_below_least({DeviceKind::kCuda, 8, 2}, 0.9);
  const std::vector<NearConfiguration> near = near_configurations(input, 10);
  const NearConfiguration* sharing = named(near, "parallel.shard_size=4");
  const NearConfiguration* moments = named(near, "optimizer.moments=bf16");
  ASSERT_NE(sharing, nullptr);
  ASSERT_NE(moments, nullptr);
  EXPECT_FALSE(sharing->changes_numbers);
  EXPECT_TRUE(moments->changes_numbers);
  EXPECT_LT(sharing, moments);  // what changes no number comes first
  const std::vector<std::string> lines = near_configuration_lines(input);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].find("(changes numbers)") != std::string::npos, near[i].changes_numbers);
  }
}

TEST(NearConfigurations, NameTheSettingByHandThatIsInTheWay) {
  FitInput input = input_below_least({DeviceKind::kCpu, 1, 1}, 1);
  const std::int64_t bytes = input.limit.bytes + 1'000'000;
  input.limit = {bytes, bytes, "a test's"};
  input.config.batch.max_tokens_per_micro_batch = 65536;
  input.config.memory.fit = MemoryFit::kKeepTokens;
  ASSERT_FALSE(fit_memory(input).has_value());
  const std::vector<NearConfiguration> near = near_configurations(input);
  ASSERT_EQ(near.size(), 3U);
  EXPECT_EQ(near[0].settings, "memory.offload=auto");
  EXPECT_FALSE(near[0].changes_numbers);
  EXPECT_EQ(near[1].settings, "batch.max_tokens_per_micro_batch=1024");
  EXPECT_FALSE(near[1].changes_numbers);
}

TEST(NearConfigurations, NameLocalSumsThatAreSetByHand) {
  FitInput input = input_below_least({DeviceKind::kCuda, 2, 2}, 1.01);
  input.config.parallel.accumulate = Accumulate::kLocal;
  ASSERT_FALSE(fit_memory(input).has_value());
  const std::vector<NearConfiguration> near = near_configurations(input, 10);
  const NearConfiguration* shard = named(near, "parallel.accumulate=auto");
  ASSERT_NE(shard, nullptr);
  EXPECT_FALSE(shard->changes_numbers);
}

TEST(NearConfigurations, AreInTheErrorOfAPlanThatCannotFit) {
  const FitInput input = input_below_least({DeviceKind::kCuda, 2, 2}, 0.9);
  const Error error = no_fit(input);
  EXPECT_EQ(error.exit_code(), 69);
  for (const std::string& line : near_configuration_lines(input)) {
    EXPECT_NE(error.advice().find(line), std::string::npos) << error.advice();
  }
  EXPECT_NE(error.message().find("master weights"), std::string::npos) << error.message();
}

}  // namespace
}  // namespace packtrain

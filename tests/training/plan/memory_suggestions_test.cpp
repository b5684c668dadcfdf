// A suggestion is reported with its size, the cheapest first, and really fits.
#include "training/plan/memory_suggestions.h"
#include "framework/core/units.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/training/small_decoder.h"
#include "training/plan/token_budget.h"

namespace packtrain {
namespace {

constexpr std::int64_t kTokensOfRank = 16'384;
const MemoryRanks kRanks{DeviceKind::kCuda, 2, 2};
const MemoryLoad kLoad{.num_rows = kTokensOfRank, .several_micro_batches = true};

// Has much state relative to its activations, so that moments matter.
DecoderConfig decoder() {
  DecoderConfig decoder = small_decoder();
  decoder.vocab_size = 1'000'000;
  decoder.num_layers = 20;
  return decoder;
}

Config config_with(Recompute recompute, Precision moments) {
  Config config;
  config.data.max_length = 128;
  config.batch.global_batch_size = 1'000'000;
  config.parallel.gather_slots = 3;
  config.memory.recompute = recompute;
  config.optimizer.moments = moments_of(moments);
  return config;
}

std::int64_t planned(Recompute recompute, Precision moments) {
  return MemoryPlanner(config_with(recompute, moments), decoder(), kRanks).plan(kLoad).total();
}

std::string remedies(const Config& config, std::int64_t bytes) {
  return memory_suggestions(config, decoder(), kRanks, kLoad, {bytes, bytes, "a test's"});
}

const Config kDefault = config_with(Recompute::kNone, Precision::kFloat32);
const std::int64_t kPlain = planned(Recompute::kNone, Precision::kFloat32);
const std::int64_t kSelective = planned(Recompute::kSelective, Precision::kFloat32);
const std::int64_t kSelectiveNarrow = planned(Recompute::kSelective, Precision::kBFloat16);

TEST(MemorySuggestions, AreNeededWhereAPlanDoesNotFit) {
  EXPECT_EQ(remedies(kDefault, kPlain), "");
  EXPECT_NE(remedies(kDefault, kPlain - 1), "");
}

TEST(MemorySuggestions, TheCheapestThatFitsIsReportedWithItsSize) {
  ASSERT_LT(kSelectiveNarrow, kSelective);
  ASSERT_LT(kSelective, kPlain);
  const auto begins = [](const std::string& text, const std::string& settings, std::int64_t bytes) {
    return text.starts_with(
        fmt::format("{} takes {:.2f} GiB", settings, static_cast<double>(bytes) / kGibibyte));
  };
  const std::string first = remedies(kDefault, kSelective);
  EXPECT_TRUE(begins(first, "memory.recompute=selective", kSelective)) << first;
  const std::string second = remedies(kDefault, kSelectiveNarrow);
  EXPECT_TRUE(begins(second, "memory.recompute=selective optimizer.moments=bf16", kSelectiveNarrow))
      << second;
}

TEST(MemorySuggestions, ASettingThatIsSetAlreadyIsNotSuggested) {
  const std::string narrow =
      remedies(config_with(Recompute::kNone, Precision::kBFloat16), kSelectiveNarrow);
  EXPECT_TRUE(narrow.starts_with("memory.recompute=selective takes")) << narrow;
  const std::string full = remedies(config_with(Recompute::kSelective, Precision::kBFloat16),
                                    planned(Recompute::kFull, Precision::kBFloat16));
  EXPECT_TRUE(full.starts_with("memory.recompute=full takes")) << full;
}

TEST(MemorySuggestions, NarrowStateComesAfterRecomputation) {
  Config config = config_with(Recompute::kFull, Precision::kBFloat16);
  config.optimizer.moments = Moments::kInt8;
  const auto bytes = [&] { return MemoryPlanner(config, decoder(), kRanks).plan(kLoad).total(); };
  const std::int64_t codes = bytes();
  config.precision.master = Precision::kBFloat16;
  const std::int64_t own = bytes();
  ASSERT_LT(own, codes);
  const std::string first = remedies(kDefault, codes);
  EXPECT_TRUE(first.starts_with("memory.recompute=full optimizer.moments=int8 takes")) << first;
  const std::string second = remedies(kDefault, own);
  EXPECT_TRUE(second.starts_with(
      "memory.recompute=full optimizer.moments=int8 precision.master=bf16 takes"))
      << second;
}

TEST(MemorySuggestions, OtherOptimizersHaveNoCodes) {
  Config config = kDefault;
  config.optimizer.name = "lion";
  const std::string text = remedies(config, kSelective - 1);
  EXPECT_EQ(text.find("int8"), std::string::npos) << text;
}

TEST(MemorySuggestions, StateInHostMemoryIsReportedWhereItIsEnough) {
  Config config = kDefault;
  config.memory.offload = Offload::kOptimizer;
  const std::int64_t bytes = MemoryPlanner(config, decoder(), kRanks).plan(kLoad).total();
  ASSERT_LT(bytes, kPlain);
  EXPECT_NE(remedies(kDefault, bytes).find("memory.offload=optimizer takes"), std::string::npos);
  EXPECT_EQ(remedies(kDefault, bytes - 1).find("memory.offload"), std::string::npos);
  config.memory.offload = Offload::kActivations;
  EXPECT_NE(remedies(config, bytes).find("memory.offload=[activations, optimizer] takes"),
            std::string::npos)
      << remedies(config, bytes);
}

TEST(MemorySuggestions, FewerTokensAreThoseThatAutoTakes) {
  const std::int64_t bytes = kPlain - 1;
  const std::int64_t tokens =
      largest_token_budget(kDefault, decoder(), kRanks, {bytes, bytes, "a test's"});
  EXPECT_LT(tokens, kTokensOfRank);
  EXPECT_TRUE(
      remedies(kDefault, bytes)
          .ends_with(fmt::format("batch.max_tokens_per_micro_batch=auto takes {} tokens", tokens)))
      << remedies(kDefault, bytes);
}

TEST(MemorySuggestions, LargerShardGroupsAreReportedWithTheirSize) {
  const auto told = [](int num_ranks, int shard_size, int enough) {
    const MemoryRanks now{DeviceKind::kCuda, num_ranks, shard_size};
    const MemoryRanks then{DeviceKind::kCuda, std::max(num_ranks, enough), enough};
    const std::int64_t bytes = MemoryPlanner(kDefault, decoder(), then).plan(kLoad).total();
    return memory_suggestions(kDefault, decoder(), now, kLoad, {bytes, bytes, "a test's"});
  };
  const std::string groups = told(8, 2, 4);
  EXPECT_NE(groups.find("parallel.shard_size=4 takes"), std::string::npos) << groups;
  const std::string whole = told(2, 2, 8);
  EXPECT_NE(whole.find("one copy of the state on 8 ranks takes"), std::string::npos) << whole;
}

TEST(MemorySuggestions, AreNoneWhereNothingHelps) {
  EXPECT_EQ(remedies(kDefault, 1), "");
}

}  // namespace
}  // namespace packtrain

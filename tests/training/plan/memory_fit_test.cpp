// What memory.fit chooses fits, and nothing in its list that fits is faster.
#include "training/plan/memory_fit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/core/error.h"
#include "tests/training/plan/fit_input.h"
#include "training/plan/gather_slots.h"
#include "training/plan/token_budget.h"

namespace packtrain {
namespace {

// Limits between the least that can be chosen and what the default needs.
std::vector<std::int64_t> limits_for(const MemoryRanks& ranks) {
  const FitInput input = input_with(ranks, kPlenty);
  const std::int64_t least = least_memory(input).bytes;
  const std::int64_t most = plan_with(input, {Recompute::kNone, kMinGatherSlots, 4096}).total();
  std::vector<std::int64_t> limits;
  for (int i = 0; i <= 10; ++i) limits.push_back(least + (most - least) * i / 10);
  return limits;
}

TEST(MemoryFit, WhatIsChosenFits) {
  for (const MemoryRanks& ranks : kLayouts) {
    for (const std::int64_t limit : limits_for(ranks)) {
      const FitInput input = input_with(ranks, limit);
      const auto choice = fit_memory(input);
      ASSERT_TRUE(choice.has_value());
      const MemorySettings& chosen = choice->chosen.settings;
      EXPECT_LE(plan_with(input, chosen).total(), limit);
      EXPECT_EQ(plan_with(input, chosen).total(), choice->chosen.bytes);
      for (const FitCandidate& candidate : fit_candidates(input)) {
        EXPECT_LE(plan_with(input, candidate.settings).total(), limit);
      }
    }
  }
}

struct TimedSettings {
  MemorySettings settings;
  double bytes;
  double seconds;
};

// All settings that could be chosen, where memory has no limit.
std::vector<TimedSettings> all_settings(const MemoryRanks& ranks) {
  const FitInput input = input_with(ranks, kPlenty);
  const StepTimeModel time(input.config, input.decoder, ranks, input.work);
  const bool gathers = ranks.device == DeviceKind::kCuda && ranks.num_ranks > 1;
  std::vector<TimedSettings> all;
  for (const std::int64_t tokens : token_choices(input.config, ranks.num_ranks)) {
    for (const RecomputeByLayer& recompute : recompute_choices(input.config.memory, 12)) {
      for (const int slots : gathers ? std::vector{3, 6, 12} : std::vector{3}) {
        const MemorySettings settings{recompute, slots, tokens};
        all.push_back({settings, static_cast<double>(plan_with(input, settings).total()),
                       time.seconds(settings)});
      }
    }
  }
  return all;
}

TEST(MemoryFit, NothingThatFitsIsFaster) {
  for (const MemoryRanks& ranks : kLayouts) {
    const std::vector<TimedSettings> all = all_settings(ranks);
    for (const std::int64_t limit : limits_for(ranks)) {
      const FitCandidate chosen = fit_memory(input_with(ranks, limit))->chosen;
      if (chosen.settings.recompute == Recompute::kNone && chosen.settings.max_tokens == 4096) {
        continue;  // the default
      }
      for (const TimedSettings& other : all) {
        const double share = other.settings.gather_slots > kMinGatherSlots ? kSlotShare : 1;
        if (other.bytes > share * static_cast<double>(limit)) continue;
        EXPECT_GE(other.seconds, chosen.seconds) << settings_text(other.settings);
      }
    }
  }
}

TEST(MemoryFit, RecomputeIsThatOfTheLargestMicroBatch) {
  for (const std::int64_t limit : limits_for(kLayouts[1])) {
    FitInput input = input_with(kLayouts[1], limit);
    const MemorySettings chosen = fit_memory(input)->chosen.settings;
    EXPECT_EQ(chosen.recompute.num_rows,
              chosen.recompute.num_first == 0 && chosen.recompute.rest == Recompute::kNone
                  ? 0
                  : chosen.max_tokens);
  }
}

TEST(MemoryFit, RecomputeSetByHandIsThatOfAllMicroBatches) {
  FitInput input = input_with(kLayouts[1], limits_for(kLayouts[1])[2]);
  input.config.memory.recompute = RecomputeByLayer(Recompute::kFull);
  const auto choice = fit_memory(input);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->chosen.settings.recompute.num_rows, 0);
}

// Steps of a few tokens more than a micro-batch holds have two that are half as large.
TEST(MemoryFit, TheTimeIsThatOfMicroBatchesOfMeanSize) {
  FitInput input = input_with(kLayouts[1], limits_for(kLayouts[1])[6]);
  input.config.memory.fit = MemoryFit::kKeepTokens;
  input.work.num_tokens = 4096;
  const FitCandidate full = fit_candidates(input).front();
  ASSERT_GT(full.settings.recompute.num_rows, 0);
  const StepTimeModel time(input.config, input.decoder, input.ranks, input.work);
  EXPECT_EQ(full.seconds, time.seconds(full.settings));
  input.work.num_tokens = 4200;
  const FitCandidate halves = fit_candidates(input).front();
  MemorySettings without = halves.settings;
  without.recompute = Recompute::kNone;
  const StepTimeModel of_halves(input.config, input.decoder, input.ranks, input.work);
  EXPECT_EQ(halves.seconds, of_halves.seconds(without));
}

TEST(MemoryFit, KeepsTheDefaultWhereItFits) {
  for (const MemoryRanks& ranks : kLayouts) {
    FitInput input = input_with(ranks, 0);
    input.limit.bytes = limits_for(ranks).back();
    const MemorySettings chosen = fit_memory(input)->chosen.settings;
    EXPECT_EQ(chosen.recompute, Recompute::kNone);
    EXPECT_EQ(chosen.max_tokens, 4096);
    --input.limit.bytes;
    const MemorySettings less = fit_memory(input)->chosen.settings;
    EXPECT_TRUE(less.recompute != Recompute::kNone || less.max_tokens < 4096);
  }
}

TEST(MemoryFit, WithoutALimitTheSlotsAreThoseOfARunWithoutFit) {
  Config config = input_with(kLayouts[2], 0).config;
  const AssumedDevice gpu = assume_device(config, twelve_layers(), on_one_host(2), 16.0);
  FitInput input = input_with(gpu.ranks, 0);
  input.limit = assumed_memory_limit(config.memory, gpu);
  EXPECT_EQ(fit_memory(input)->chosen.settings.gather_slots,
            assumed_gather_slots(config, twelve_layers(), 4096, gpu));
}

TEST(MemoryFit, SettingsByHandStay) {
  FitInput input = input_with(kLayouts[2], 0);
  const std::vector<std::int64_t> limits = limits_for(kLayouts[2]);
  input.limit.bytes = limits[3];
  input.config.parallel.gather_slots = 4;
  input.config.memory.recompute = RecomputeByLayer(Recompute::kFull, 5, Recompute::kSelective);
  for (const FitCandidate& candidate : fit_candidates(input)) {
    EXPECT_EQ(candidate.settings.gather_slots, 4);
    EXPECT_EQ(candidate.settings.recompute, *input.config.memory.recompute);
  }
  input = input_with(kLayouts[2], limits[8]);
  input.config.memory.fit = MemoryFit::kKeepTokens;
  const std::vector<FitCandidate> kept = fit_candidates(input);
  ASSERT_FALSE(kept.empty());
  for (const FitCandidate& candidate : kept) EXPECT_EQ(candidate.settings.max_tokens, 4096);
}

TEST(MemoryFit, TokensStayWhereStepsOrMicroBatchesAreMadeOfThem) {
  Config config = input_with(kLayouts[0], 0).config;
  EXPECT_EQ(token_choices(config, 1),
            (std::vector<std::int64_t>{4096, 3072, 2048, 1536, 1024, 768, 512}));
  for (const StrategyTraits& strategy : kStrategyTraits) {
    config.batch.strategy = strategy.strategy;
    const std::size_t count = strategy.strategy == Strategy::kBalanced ? 7 : 1;
    EXPECT_EQ(token_choices(config, 1).size(), count) << strategy.name;
  }
}

TEST(MemoryFit, NothingIsChosenWhereNothingFits) {
  const MemoryRanks ranks = kLayouts[0];
  FitInput input = input_with(ranks, 0);
  const std::int64_t least = least_memory(input).bytes;
  input.limit = {least - 1, least - 1, "a test's"};
  EXPECT_FALSE(fit_memory(input).has_value());
  input.limit.with_reserve = least;
  const auto choice = fit_memory(input);  // the reserve is there for this
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->chosen.bytes, least);
}

TEST(MemoryFit, ActivationsAreOffloadedWhereTheyFitOnTheHost) {
  FitInput input = input_with({DeviceKind::kCuda, 1, 1}, kPlenty);
  input.config.memory.offload = Offload::kActivations;
  input.limit.bytes = input.limit.with_reserve = least_memory(input).bytes;
  input.config.memory.offload.reset();
  const auto choice = fit_memory(input);
  ASSERT_TRUE(choice && choice->chosen.settings.offload == Offload::kActivations);
  const std::int64_t needed = plan_with(input, choice->chosen.settings).offloaded_bytes;
  ASSERT_GT(needed, 0);
  input.limit.host_bytes = needed;
  EXPECT_TRUE(fit_memory(input));
  input.limit.host_bytes = 0;
  EXPECT_FALSE(fit_memory(input));
  EXPECT_EQ(least_memory(input).settings.offload, Offload::kNone);
  input.config.memory.offload = Offload::kActivations;
  EXPECT_TRUE(fit_memory(input)) << "set by hand";
}

TEST(MemoryFit, AnAutomaticBudgetThatFitsStaysTheSame) {
  for (const std::int64_t limit : limits_for(kLayouts[0])) {
    FitInput input = input_with(kLayouts[0], limit);
    Config& config = input.config;
    config.batch.max_tokens_per_micro_batch.reset();
    Config without = config;
    without.memory.recompute = Recompute::kNone;
    std::int64_t tokens = 0;
    try {
      tokens = largest_token_budget(without, input.decoder, input.ranks, input.limit);
    } catch (const Error&) {
    }
    const MemorySettings chosen = fit_memory(input)->chosen.settings;
    EXPECT_EQ(chosen.recompute == Recompute::kNone, tokens > 0);
    if (tokens > 0) {
      EXPECT_EQ(chosen.max_tokens, tokens);
    }
    EXPECT_LE(plan_with(input, chosen).total(), limit);
  }
}

TEST(MemoryFit, OnCpusNeedsALimit) {
  MemorySection memory;
  EXPECT_TRUE(chooses_memory(memory, DeviceKind::kCuda));
  EXPECT_FALSE(chooses_memory(memory, DeviceKind::kCpu));
  memory.limit_gib = 1;
  EXPECT_TRUE(chooses_memory(memory, DeviceKind::kCpu));
  memory.fit = MemoryFit::kOff;
  EXPECT_FALSE(chooses_memory(memory, DeviceKind::kCuda));
}

}  // namespace
}  // namespace packtrain

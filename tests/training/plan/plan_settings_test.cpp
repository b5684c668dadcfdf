// Settings that a resumed run must have as its checkpoint has them, because steps would have other
// examples.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "framework/core/error.h"
#include "training/plan/plan_header.h"
#include "training/plan/plan_source.h"
#include "training/saving/resumed_settings.h"

namespace packtrain {
namespace {

std::string refusal(const PlanSettings& saved, const PlanSettings& present) {
  try {
    check_changes(changes_of(saved, present), {}, "step-7");
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
    return error.message();
  }
  return "";
}

PlanSettings settings_of(const Config& config) {
  return plan_settings(config, plan_options(config, DecoderConfig{}, 2, 1024), "f00d");
}

TEST(PlanSettings, HaveTheSharingOfPrefixesWhereStepsCountTheRowsOfGroups) {
  const auto sharing = [](ObjectiveKind kind, Strategy strategy, bool in_tokens) {
    Config config;
    config.objective.kind = kind;
    config.batch.strategy = strategy;
    if (in_tokens) config.batch.global_batch_tokens = 4096;
    const PlanSettings settings = settings_of(config);
    const auto found =
        std::ranges::find(settings, "batch.share_prefixes", &PlanSettings::value_type::first);
    return found == settings.end() ? std::string("none") : found->second;
  };
  EXPECT_EQ(sharing(ObjectiveKind::kDpo, Strategy::kBalanced, true), "true");
  EXPECT_EQ(sharing(ObjectiveKind::kDpo, Strategy::kPadding, true), "false");
  EXPECT_EQ(sharing(ObjectiveKind::kDpo, Strategy::kBalanced, false), "none");
  EXPECT_EQ(sharing(ObjectiveKind::kNextToken, Strategy::kBalanced, true), "none");
}

TEST(PlanSettings, HaveTheSharingOfPrefixesWhereOrdersCompareTheRowsOfGroups) {
  Config config;
  config.objective.kind = ObjectiveKind::kDpo;
  config.batch.order = OrderKind::kGroupByLength;
  const PlanSettings shared = settings_of(config);
  config.batch.share_prefixes = false;
  const auto changes = changes_of(shared, settings_of(config));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes.front().key, "batch.share_prefixes");
}

TEST(PlanSettings, DifferWhereStepsWouldHaveOtherExamples) {
  const Config config;
  const PlanSettings saved = settings_of(config);
  EXPECT_EQ(refusal(saved, saved), "");
  const auto refused = [&](const char* key, auto&& change) {
    Config other = config;
    change(other);
    const std::string text = refusal(saved, settings_of(other));
    EXPECT_NE(text.find(key), std::string::npos) << key << ": " << text;
  };
  refused("run.seed: 0, this run has 9", [](Config& c) { c.run.seed = 9; });
  refused("batch.strategy", [](Config& c) { c.batch.strategy = Strategy::kMultipack; });
  refused("batch.strategy", [](Config& c) { c.batch.strategy = Strategy::kFixedLength; });
  refused("batch.order: random", [](Config& c) { c.batch.order = OrderKind::kSequential; });
  refused("batch.global_batch_size: 64, this run has 32",
          [](Config& c) { c.batch.global_batch_size = 32; });
  refused("data.max_length", [](Config& c) { c.data.max_length = 100; });
  refused("data.too_long", [](Config& c) { c.data.too_long = TooLong::kDrop; });
  EXPECT_NE(refusal(saved, plan_settings(config, plan_options(config, {}, 2, 1024), "beef")), "");
}

TEST(PlanSettings, HaveTheSizeOfAStepOfEachAdapter) {
  Config config;
  config.adapters = {{"fr", {{"rank", "8"}, {"global_batch_size", "4"}}}};
  Config other = config;
  other.adapters[0].settings[1].second = "8";
  const std::string text = refusal(settings_of(config), settings_of(other));
  EXPECT_NE(text.find("adapters.fr.global_batch_size: 4, this run has 8"), std::string::npos)
      << text;
}

TEST(PlanSettings, DetectOtherTokensWhereBothStoresHaveADigest) {
  const Config config;
  const PlanOptions options = plan_options(config, DecoderConfig{}, 2, 1024);
  const auto of = [&](const std::string& fingerprint, const std::string& digest) {
    return plan_settings(config, options, fingerprint, digest);
  };
  EXPECT_NE(
      refusal(of("f00d", "aa"), of("f00d", "bb")).find("data.train: tokens and masks of digest"),
      std::string::npos);
  EXPECT_EQ(refusal(of("f00d", "aa"), of("f00d", "aa")), "");
  EXPECT_EQ(refusal(of("f00d", ""), of("f00d", "bb")), "");
  EXPECT_EQ(refusal(of("f00d", "aa"), of("f00d", "")), "");
  EXPECT_EQ(changes_of(of("f00d", "aa"), of("beef", "bb")).size(), 1U) << "other data, once";
}

TEST(PlanSettings, AreTheSameWhereOnlyTheLayoutDiffers) {
  const Config config;
  for (const Strategy strategy : {Strategy::kPadding, Strategy::kPaddingFree}) {
    Config other = config;
    other.batch.strategy = strategy;
    other.batch.micro_batch_size = 17;
    other.batch.max_tokens_per_micro_batch = 99'999;
    other.batch.cost = CostSource::kMeasured;
    EXPECT_EQ(settings_of(other), settings_of(config));
  }
}

TEST(PlanSettings, HoldTheTokenBudgetWherePacksAreMadeOfIt) {
  Config config;
  config.batch.strategy = Strategy::kMultipack;
  const PlanSettings small = plan_settings(config, plan_options(config, {}, 2, 1024), "f00d");
  const PlanSettings large = plan_settings(config, plan_options(config, {}, 2, 2048), "f00d");
  EXPECT_NE(refusal(small, large).find("batch.max_tokens_per_micro_batch: 1024"),
            std::string::npos);
  Config wider = config;
  wider.batch.packing_window *= 2;
  EXPECT_NE(refusal(small, settings_of(wider)).find("batch.packing_window"), std::string::npos);
}

TEST(PlanSettings, OfOlderCheckpointsAreComparedAsFarAsTheyGo) {
  const PlanSettings present = settings_of(Config{});
  EXPECT_EQ(refusal({}, present), "");
  EXPECT_EQ(refusal({{"run.seed", "0"}}, present), "");
  EXPECT_NE(refusal({{"run.seed", "1"}}, present), "");
}

}  // namespace
}  // namespace packtrain

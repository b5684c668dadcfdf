// The plan header: what it keeps, what it refuses, and that saving it loses no bit.
#include "training/plan/plan_header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "framework/core/error.h"
#include "training/plan/plan_source.h"
#include "training/saving/resumed_settings.h"

namespace packtrain {
namespace {

PlanEntry entry_from(std::int64_t step, int num_ranks, const std::vector<double>& speeds = {}) {
  PlanEntry entry;
  entry.layout = {step,
                  1024,
                  {.linear = 0.1,
                   .quadratic = 1e-9 / 3,
                   .constant = 2e-300,
                   .span = {.windowed_share = 5.0 / 6, .window = 4096}},
                  speeds};
  entry.num_ranks = num_ranks;
  entry.cost_source = speeds.empty() ? CostSource::kFlops : CostSource::kMeasured;
  return entry;
}

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

TEST(PlanOptions, SayHowFarTheModelsLayersLookBack) {
  DecoderConfig decoder;
  decoder.num_layers = 4;
  EXPECT_EQ(plan_options({}, decoder, 1, 1024).cost.span, AttentionSpan{});
  decoder.layers = {{.attention = {.window = 200}}, {}, {.attention = {.window = 200}}, {}};
  EXPECT_EQ(plan_options({}, decoder, 1, 1024).cost.span,
            (AttentionSpan{.windowed_share = 0.5, .window = 200}));
  decoder.layers = {{.attention = {.chunk = 200}}, {}, {}, {}};
  EXPECT_EQ(plan_options({}, decoder, 1, 1024).cost.span,
            (AttentionSpan{.chunked_share = 0.25, .chunk = 200}));
}

TEST(PlanHeader, HasTheSharingOfPrefixesWhereStepsCountTheRowsOfGroups) {
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

TEST(PlanHeader, HasTheSharingOfPrefixesWhereOrdersCompareTheRowsOfGroups) {
  Config config;
  config.objective.kind = ObjectiveKind::kDpo;
  config.batch.order = OrderKind::kGroupByLength;
  const PlanSettings shared = settings_of(config);
  config.batch.share_prefixes = false;
  const auto changes = changes_of(shared, settings_of(config));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes.front().key, "batch.share_prefixes");
}

TEST(PlanHeader, OfARunFromBeforeThereWereWindowsHasNone) {
  PlanHeader header;
  header.settings = {{"run.seed", "1"}};
  PlanEntry entry = entry_from(0, 2);
  entry.layout.cost.span = {};
  header.begin(entry);
  std::string text = plan_header_text(header);
  for (const std::string key : {"\"windowed_share\"", "\"window\""}) {
    const auto at = text.find(key);
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at, key.size(), "\"unknown\"");
  }
  EXPECT_EQ(parse_plan_header(text, "here"), header);
}

TEST(PlanHeader, IsReadBackToTheLastBit) {
  PlanHeader header;
  header.settings = {{"run.seed", "18446744073709551615"}, {"batch.order", "random"}};
  header.begin(entry_from(0, 3, {1.0 / 3, 1.0, 5.0 / 3}));
  header.begin(entry_from(7, 2));
  PlanEntry lowered = entry_from(9, 2);
  lowered.lowered_from = 2048;
  lowered.shard_size = 2;
  lowered.fitted = {
      {Recompute::kFull, 3, Recompute::kSelective}, 5, Offload::kActivationsAndOptimizer};
  lowered.accumulate = Accumulate::kLocal;
  header.begin(lowered);
  EXPECT_EQ(parse_plan_header(plan_header_text(header), "here"), header);
}

TEST(PlanHeader, WithPlansBeforeItIsReadBack) {
  PlanHeader header;
  header.settings = {{"batch.global_batch_size", "8"}};
  header.begin({});
  const std::string plain = plan_header_text(header);
  EXPECT_EQ(plain.find("start"), std::string::npos) << "most have none";
  header.earlier = {{0, 0, {{"batch.global_batch_size", "16"}}}, {5, 0, {}}};
  header.from_step = 9;
  header.first_epoch = 1;
  header.schedule_position = 20;
  header.ends_epoch = true;
  EXPECT_EQ(parse_plan_header(plan_header_text(header), "here"), header);
  header.earlier.back().from_step = 0;
  EXPECT_THROW(parse_plan_header(plan_header_text(header), "here"), Error);
}

TEST(PlanHeader, ThatIsDamagedIsACheckpointError) {
  PlanHeader header;
  header.begin(entry_from(0, 2, {0.5, 1.5}));
  const std::string text = plan_header_text(header);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"{", "["},
                                                        {"\"from_step\":0", "\"from_step\":-1"},
                                                        {"\"num_ranks\":2", "\"num_ranks\":3"},
                                                        {"measured", "guessed"},
                                                        {"0.5", "-0.5"},
                                                        {"speeds", "spades"}}) {
    std::string damaged = text;
    damaged.replace(damaged.find(from), from.size(), to);
    try {
      parse_plan_header(damaged, "step-7");
      FAIL() << damaged;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
      EXPECT_EQ(error.message().find("step-7: the plan header"), 0U) << error.message();
    }
  }
}

TEST(PlanHeader, WithAMemoryChoiceThatIsNoneIsACheckpointError) {
  PlanHeader header;
  PlanEntry entry = entry_from(0, 2);
  const std::string plain = plan_header_text(header);
  EXPECT_EQ(plain.find("memory_fit"), std::string::npos) << "most have none";
  entry.fitted = {Recompute::kSelective, 3, Offload::kOptimizer};
  header.begin(entry);
  const std::string text = plan_header_text(header);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"selective", "seldom"},
           {"\"optimizer\"", "\"optimiser\""},
           {"\"gather_slots\":3", "\"gather_slots\":0"}}) {
    std::string damaged = text;
    damaged.replace(damaged.find(from), from.size(), to);
    EXPECT_THROW(parse_plan_header(damaged, "step-7"), Error) << damaged;
  }
}

TEST(PlanHeader, WithAnAccumulationThatIsNoneIsACheckpointError) {
  PlanHeader header;
  PlanEntry entry = entry_from(0, 2);
  header.begin(entry);
  EXPECT_EQ(plan_header_text(header).find("accumulate"), std::string::npos) << "most have none";
  entry.accumulate = Accumulate::kLocal;
  header.begin(entry);
  std::string damaged = plan_header_text(header);
  const std::string value = "\"accumulate\":\"local\"";
  damaged.replace(damaged.find(value), value.size(), "\"accumulate\":\"once\"");
  EXPECT_THROW(parse_plan_header(damaged, "step-7"), Error);
}

TEST(PlanHeader, BeginsNoEntryThatSaysNothingNew) {
  PlanHeader header;
  header.begin(entry_from(0, 2));
  header.begin(entry_from(5, 2));
  ASSERT_EQ(header.entries.size(), 1U);
  EXPECT_EQ(header.entries.front().layout.from_step, 0);
  header.begin(entry_from(5, 4));
  EXPECT_EQ(header.entries.size(), 2U);
}

TEST(PlanHeader, AnEntryReplacesThoseThatNeverCameToHold) {
  PlanHeader header;
  header.begin(entry_from(0, 2));
  header.begin(entry_from(5, 4));
  header.begin(entry_from(5, 3));
  ASSERT_EQ(header.entries.size(), 2U);
  EXPECT_EQ(header.entries.back().num_ranks, 3);
}

TEST(PlanHeader, GivesEachNumberOfRanksItsOwnEntries) {
  PlanHeader header;
  header.begin(entry_from(0, 2));
  header.begin(entry_from(5, 4));
  header.begin(entry_from(9, 2, {0.9, 1.1}));
  const auto layouts = header.layouts(2);
  ASSERT_EQ(layouts.size(), 2U);
  EXPECT_EQ(layouts[0].from_step, 0);
  EXPECT_EQ(layouts[1].from_step, 9);
  EXPECT_EQ(header.layouts(4).size(), 1U);
  EXPECT_TRUE(header.layouts(3).empty());
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

TEST(PlanHeader, KeepsTheVersionOfItsOrdersAndOlderOnesHaveTheFirst) {
  PlanHeader header;
  header.begin(entry_from(0, 2));
  EXPECT_EQ(header.order_version, kOrderVersion);
  std::string text = plan_header_text(header);
  EXPECT_EQ(parse_plan_header(text, "step-7").order_version, kOrderVersion);
  const std::string key = "\"order_version\"";
  ASSERT_NE(text.find(key), std::string::npos);
  text.replace(text.find(key), key.size(), "\"unknown\"");
  EXPECT_EQ(parse_plan_header(text, "step-7").order_version, 1);
  text.replace(text.find("\"unknown\":2"), 11, "\"order_version\":9");
  EXPECT_THROW(parse_plan_header(text, "step-7"), Error);
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

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

}  // namespace
}  // namespace packtrain

// Batches of conversations whose turns are examples.
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "collators/flattening.h"
#include "samplers/planner.h"
#include "tests/collators/pieces.h"
#include "tests/samplers/conversations.h"

namespace packtrain::turns_test {
namespace {

using test::GroupStore;
using test::Ints;
using test::turn;
using test::values;

PackedBatch batch_of(const TokenStore& store, bool share_prefixes, Normalize normalize) {
  PlanOptions options;
  options.order = OrderKind::kSequential;
  options.global_batch_size = store.info().groups->num_groups;
  options.share_prefixes = share_prefixes;
  const StepPlan plan = Planner(store, options).plan(0);
  return flatten(store, plan.ranks[0][0], loss_normalization(plan, normalize), {.row_multiple = 1});
}

TEST(Turns, AreSegmentsThatSeeTheFirstRowsOfTheLastPrompt) {
  const GroupStore store(GroupKind::kTurns, {{{turn(2, 0, 2, 100), turn(4, 0, 1, 300)}}});
  const PackedBatch batch = batch_of(store, true, Normalize::kTokens);
  EXPECT_EQ(values(batch.input_ids), (Ints{0, 1, 100, 101, 1, 2, 3, 300}));
  EXPECT_EQ(values(batch.position_ids), (Ints{0, 1, 2, 3, 1, 2, 3, 4}));
  EXPECT_EQ(values(batch.labels), (Ints{-100, 100, 101, -100, -100, -100, 300, -100}));
  EXPECT_EQ(values(batch.cu_seqlens), (Ints{0, 1, 4, 8}));
  for (const std::int64_t segment : {1, 2}) {
    ASSERT_EQ(batch.segments()[segment].prefix.size(), 1U);
    EXPECT_EQ(batch.segments()[segment].prefix.front(), (RowRange{0, 1}));
  }
}

TEST(Turns, ThatFollowDifferentPartsOfThePromptSeeThem) {
  const GroupStore store(GroupKind::kTurns,
                         {{{turn(3, 0, 2, 100), turn(5, 0, 1, 200), turn(8, 0, 4, 300)}}});
  const PackedBatch batch = batch_of(store, true, Normalize::kTokens);
  EXPECT_EQ(values(batch.cu_seqlens), (Ints{0, 4, 7, 9, 17}));
  EXPECT_EQ(batch.segments()[1].prefix.front(), (RowRange{0, 2}));
  EXPECT_EQ(batch.segments()[2].prefix.front(), (RowRange{0, 4}));
  EXPECT_EQ(batch.segments()[3].prefix.front(), (RowRange{0, 4}));
  EXPECT_EQ(batch.position_ids[4], 2);
  EXPECT_EQ(batch.position_ids[9], 4);
}

TEST(Turns, HaveNoArraysOfAnObjective) {
  const GroupStore store(GroupKind::kTurns, test::draw_conversations(1, 5, 30, 4));
  const PackedBatch batch = batch_of(store, true, Normalize::kTokens);
  EXPECT_FALSE(batch.has_groups);
  EXPECT_TRUE(batch.group_num_rows.empty());
}

using Labels = std::map<std::pair<std::int32_t, std::int32_t>, std::pair<int, float>>;

// The weights of the labels, by label and position, each with the number of its occurrences.
Labels labels_of(const PackedBatch& batch) {
  Labels labels;
  for (std::size_t n = 0; n < batch.loss_index.size(); ++n) {
    const auto row = static_cast<std::size_t>(batch.loss_index[n]);
    auto& [count, weight] = labels[{batch.labels[row], batch.position_ids[row]}];
    ++count;
    weight += batch.loss_weight[n];
  }
  return labels;
}

TEST(Turns, HaveTheLabelsAndWeightsOfExamplesThatShareNoRows) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const GroupStore store(GroupKind::kTurns, test::draw_conversations(seed, 12, 40, 5));
    for (const Normalize mode : {Normalize::kTokens, Normalize::kExamples}) {
      const PackedBatch shared = batch_of(store, true, mode);
      const PackedBatch whole = batch_of(store, false, mode);
      EXPECT_EQ(labels_of(shared), labels_of(whole));
      EXPECT_EQ(values(shared.loss_weight), values(whole.loss_weight));
      EXPECT_LT(shared.input_ids.size(), whole.input_ids.size());
    }
  }
}

}  // namespace
}  // namespace packtrain::turns_test

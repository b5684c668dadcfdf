// Batches of stores with groups.
#include "collators/group_arrays.h"

#include <gtest/gtest.h>

#include <map>
#include <span>
#include <vector>

#include "collators/flattening.h"
#include "framework/core/error.h"
#include "samplers/planner.h"
#include "tests/collators/pieces.h"
#include "tests/samplers/group_store.h"

namespace packtrain::group_arrays_test {
namespace {

using test::draw_groups;
using test::GroupStore;
using test::Ints;
using test::member;
using test::MemoryGroup;
using test::pair;
using test::values;
using Floats = std::vector<float>;

// Values of an example: 100 times its number, and the number of the label.
class DrawnReference final : public RowValues {
 public:
  explicit DrawnReference(const TokenStore& store, std::int64_t num_missing = 0) {
    for (std::int64_t e = 0; e < store.info().num_examples; ++e) {
      const auto count = store.num_loss_tokens()[static_cast<std::size_t>(e)] - num_missing;
      for (std::int64_t n = 0; n < count; ++n) {
        values_[e].push_back(static_cast<float>(100 * e + n));
      }
    }
  }
  std::span<const float> of(std::int64_t example) const override { return values_.at(example); }

 private:
  std::map<std::int64_t, Floats> values_;
};

PlanOptions one_step(std::int64_t num_groups, bool share_prefixes) {
  PlanOptions options;
  options.order = OrderKind::kSequential;
  options.global_batch_size = num_groups;
  options.share_prefixes = share_prefixes;
  return options;
}

PackedBatch batch_of(const TokenStore& store, bool share_prefixes, CollatorOptions options = {},
                     Normalize normalize = Normalize::kTokens) {
  const StepPlan plan =
      Planner(store, one_step(store.info().groups->num_groups, share_prefixes)).plan(0);
  options.row_multiple = 1;
  return flatten(store, plan.ranks[0][0], loss_normalization(plan, normalize), options);
}

TEST(GroupArrays, APromptIsOneSegmentThatEveryAnswerSees) {
  const GroupStore store(GroupKind::kPairs, {pair(4, 2, 3)});
  const PackedBatch batch = batch_of(store, true);
  EXPECT_EQ(values(batch.input_ids), (Ints{0, 1, 2, 3, 100, 101, 3, 500, 501, 502}));
  EXPECT_EQ(values(batch.position_ids), (Ints{0, 1, 2, 3, 4, 5, 3, 4, 5, 6}));
  EXPECT_EQ(values(batch.cu_seqlens), (Ints{0, 3, 6, 10}));
  EXPECT_EQ(values(batch.labels), (Ints{-100, -100, -100, 100, 101, -100, 500, 501, 502, -100}));
  const AttentionSegments segments = batch.segments();
  EXPECT_TRUE(segments[0].is_sequence());
  for (const std::int64_t answer : {1, 2}) {
    ASSERT_EQ(segments[answer].prefix.size(), 1U);
    EXPECT_EQ(segments[answer].prefix.front(), (RowRange{0, 3}));
  }
  EXPECT_EQ(batch.max_seqlen, 7);
}

TEST(GroupArrays, HaveEveryExampleOnceWithItsLabelsRoleAndMargin) {
  std::vector<MemoryGroup> groups = {pair(4, 2, 3), pair(5, 1, 2)};
  groups[1].margin = 1.5F;
  const GroupStore store(GroupKind::kPairs, groups);
  for (const bool shares : {true, false}) {
    const PackedBatch batch = batch_of(store, shares);
    EXPECT_TRUE(batch.has_groups);
    EXPECT_EQ(values(batch.group_num_rows), (std::vector<std::int64_t>{2, 3, 1, 2}));
    EXPECT_EQ(values(batch.group_roles), (Ints{0, 1, 0, 1}));
    EXPECT_EQ(values(batch.group_margins), (Floats{0, 0, 1.5F, 1.5F}));
    EXPECT_EQ(values(batch.group_weights), (Floats{0.5F, 0.5F, 0.5F, 0.5F}));
  }
}

TEST(GroupArrays, WeightsOfGroupsFollowTheWeightsOfTheirStores) {
  const GroupStore store(GroupKind::kPairs, {pair(4, 2, 3), pair(5, 1, 2)},
                         LossWeights({{0, 1.0}, {2, 3.0}}));
  EXPECT_EQ(values(batch_of(store, true).group_weights), (Floats{0.25F, 0.25F, 0.75F, 0.75F}));
}

TEST(GroupArrays, AGroupCountsByTheMeanMaskWeightOfItsFirstExample) {
  MemoryGroup lighter = pair(5, 1, 2);
  for (test::DrawnMember& lighter_member : lighter.members) {
    for (std::uint8_t& byte : lighter_member.example.loss_mask) byte = byte == 0 ? 0 : 2;
  }
  const GroupStore store(GroupKind::kPairs, {pair(4, 2, 3), lighter}, {}, {}, {0, 1, 0.25});
  for (const bool shares : {true, false}) {
    EXPECT_EQ(values(batch_of(store, shares).group_weights), (Floats{0.8F, 0.8F, 0.2F, 0.2F}));
  }
}

TEST(GroupArrays, NextTokenWeightsAreOfTheExamplesThatAreLearned) {
  const GroupStore store(GroupKind::kPairs, {pair(4, 2, 3), pair(5, 1, 2)});
  for (const bool shares : {true, false}) {
    const float third = 1.0F / 3;
    EXPECT_EQ(values(batch_of(store, shares).loss_weight),
              (Floats{third, third, 0, 0, 0, third, 0, 0}));
    EXPECT_EQ(values(batch_of(store, shares, {}, Normalize::kExamples).loss_weight),
              (Floats{0.25F, 0.25F, 0, 0, 0, 0.5F, 0, 0}));
  }
}

TEST(GroupArrays, NextTokenWeightsAreZeroWhereNoExampleOfAStepIsLearned) {
  const GroupStore store(GroupKind::kJudged, {{{member(2, 2, 100, GroupRole::kUndesirable)}}});
  EXPECT_EQ(values(batch_of(store, true).loss_weight), (Floats{0, 0}));
}

TEST(GroupArrays, MaskWeightsAreFactorsOfNextTokenWeightsInEveryArrangement) {
  const GroupStore store(GroupKind::kPairs, draw_groups(3, 5, 20, GroupKind::kPairs), {}, {},
                         {0.0, 0.5});
  for (const Normalize mode : {Normalize::kTokens, Normalize::kExamples}) {
    EXPECT_EQ(values(batch_of(store, true, {}, mode).loss_weight),
              values(batch_of(store, false, {}, mode).loss_weight));
  }
}

TEST(GroupArrays, ColumnsAndReferenceAreThoseOfTheLabelOfARow) {
  std::vector<MemoryGroup> groups = {pair(3, 2, 1), pair(2, 1, 2)};
  float next = 0;
  for (MemoryGroup& group : groups) {
    for (test::DrawnMember& one : group.members) {
      one.columns.resize(2);
      for (std::size_t t = 0; t < one.example.input_ids.size(); ++t) {
        one.columns[0].push_back(next++);
        one.columns[1].push_back(-next);
      }
    }
  }
  const GroupStore store(GroupKind::kPairs, groups, {}, {"advantage", "old_log_prob"});
  const DrawnReference reference(store);
  for (const bool shares : {true, false}) {
    const PackedBatch batch = batch_of(store, shares, {.reference = &reference});
    EXPECT_EQ(batch.column_names, (std::vector<std::string>{"advantage", "old_log_prob"}));
    EXPECT_EQ(values(batch.token_columns),
              (Floats{3, 4, 8, 11, 14, 15, -4, -5, -9, -12, -15, -16}));
    EXPECT_EQ(values(batch.reference), (Floats{0, 1, 100, 200, 300, 301}));
  }
}

TEST(GroupArrays, RefuseAReferenceOfOtherLabels) {
  const GroupStore store(GroupKind::kPairs, {pair(3, 2, 1)});
  const DrawnReference reference(store, 1);
  try {
    batch_of(store, true, {.reference = &reference});
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kData);
    EXPECT_NE(error.message().find("example 0 has 2 labels, but 1 log-probabilities"),
              std::string::npos)
        << error.message();
  }
}

TEST(GroupArrays, OfAnEmptyMicroBatchAreThereAndEmpty) {
  const GroupStore store(GroupKind::kPairs, {pair(3, 2, 1)});
  const PackedBatch batch = flatten(store, {}, {});
  EXPECT_TRUE(batch.has_groups);
  EXPECT_TRUE(batch.group_num_rows.empty());
}

TEST(GroupArrays, OfAPlainStoreAreNot) {
  const test::MemoryStore store = test::store_of({3, 2});
  const PackedBatch batch = flatten(store, test::whole(store), {});
  EXPECT_FALSE(batch.has_groups);
  EXPECT_TRUE(batch.group_weights.empty());
}

TEST(GroupArrays, AreNotThereAndAllLabelsHaveWeightsWhereGroupsArePlainExamples) {
  const GroupStore store(GroupKind::kPairs, {pair(3, 2, 1)});
  const PackedBatch batch = batch_of(store, true, {.as_plain = true});
  EXPECT_FALSE(batch.has_groups);
  EXPECT_EQ(values(batch.loss_weight), (Floats{0.5F, 0.5F, 0.5F}));
}

TEST(GroupArrays, RandomBitsOfARowDoNotDependOnSharing) {
  const GroupStore store(GroupKind::kPairs, {pair(4, 2, 3)});
  const CollatorOptions options{.row_seeds = CounterRandom(7, "dropout", 0)};
  const Ints shared = values(batch_of(store, true, options).row_seeds);
  const Ints whole = values(batch_of(store, false, options).row_seeds);
  EXPECT_EQ(Ints(shared.begin(), shared.begin() + 6), Ints(whole.begin(), whole.begin() + 6));
  EXPECT_EQ(Ints(shared.begin() + 6, shared.end()), Ints(whole.begin() + 9, whole.end()));
}

TEST(GroupArrays, RefuseAPieceAfterAPrefixThatLacksALabel) {
  const GroupStore store(GroupKind::kPairs, {pair(4, 2, 3)});
  MicroBatch pieces = Planner(store, one_step(1, true)).plan(0).ranks[0][0];
  pieces[1].begin += 2;
  pieces[1].length -= 2;
  EXPECT_THROW(flatten(store, pieces, {}), Error);
}

}  // namespace
}  // namespace packtrain::group_arrays_test

// What is refused or left out of the plan of a store with groups, and in which words.
#include <gtest/gtest.h>

#include <string>

#include "framework/core/error.h"
#include "samplers/evaluation_plan.h"
#include "samplers/plan_file/plan_file.h"
#include "samplers/planner.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/samplers/group_options.h"
#include "tests/samplers/group_store.h"

namespace packtrain::group_refusal_test {
namespace {

using test::group_options;
using test::groups_in;
using test::GroupStore;
using test::MemoryGroup;
using test::pair;

std::string refusal(const TokenStore& store, const PlanOptions& options) {
  const Error error = test::error_of([&] { Planner(store, options); });
  return error.message();
}

GroupStore three_pairs() {
  return {GroupKind::kPairs, {pair(4, 2, 3), pair(10, 5, 30), pair(4, 3, 2)}};
}

TEST(GroupRefusal, NamesTheExampleThatIsTooLongAndItsGroup) {
  EXPECT_EQ(refusal(three_pairs(), group_options(20)),
            "example 3 (rejected) of group 1 (examples 2 to 3) has 40 tokens, more than "
            "data.max_length = 20 (1 of 3 groups have a longer example, the longest has 40 "
            "tokens)");
}

TEST(GroupRefusal, DroppedGroupsAreCountedWhole) {
  const GroupStore store = three_pairs();
  PlanOptions options = group_options(20);
  options.too_long = TooLong::kDrop;
  const Planner planner(store, options);
  EXPECT_EQ(planner.losses().dropped_examples, 1);
  EXPECT_EQ(planner.plan(0).num_groups, 2);
}

TEST(GroupRefusal, AGroupWithAnExampleWithoutALabelIsLeftOut) {
  MemoryGroup masked = pair(4, 2, 3);
  masked.members[1].example.loss_mask.assign(7, 0);
  MemoryGroup empty = pair(4, 2, 3);
  empty.members[0].example = {};
  const GroupStore store(GroupKind::kPairs, {masked, pair(4, 2, 3), empty});
  const Planner planner(store, group_options(20));
  EXPECT_EQ(planner.losses().masked_examples, 1);
  EXPECT_EQ(planner.losses().empty_examples, 1);
  EXPECT_EQ(groups_in(store, planner.plan(0).ranks[0][0]), (std::vector<std::int64_t>{1}));
}

TEST(GroupRefusal, SaysWhyNoGroupIsLeft) {
  MemoryGroup masked = pair(4, 2, 3);
  masked.members[1].example.loss_mask.assign(7, 0);
  EXPECT_EQ(refusal(GroupStore(GroupKind::kPairs, {masked}), group_options(20)),
            "no group of memory is left: of 1 groups 0 have an empty example, 0 were dropped for "
            "an example longer than data.max_length = 20, 1 have an example without a label");
}

TEST(GroupRefusal, NamesAGroupThatDoesNotFitAMicroBatch) {
  PlanOptions options = group_options(40);
  options.max_tokens_per_micro_batch = 45;
  EXPECT_EQ(refusal(three_pairs(), options),
            "group 1 (examples 2 to 3) has 46 rows, more than batch.max_tokens_per_micro_batch = "
            "45");
  options.max_tokens_per_micro_batch = 46;
  EXPECT_NO_THROW(Planner(three_pairs(), options));
  options.share_prefixes = false;
  const Error error = test::error_of([&] { Planner(three_pairs(), options); });
  EXPECT_NE(error.message().find("has 55 rows"), std::string::npos) << error.message();
  EXPECT_NE(error.advice().find("batch.share_prefixes: true"), std::string::npos);
}

TEST(GroupRefusal, NamesEverySettingThatWouldCutOrJoinExamples) {
  const auto text = [](auto&& change) {
    PlanOptions options = group_options(40);
    change(options);
    return refusal(three_pairs(), options);
  };
  EXPECT_EQ(text([](PlanOptions& options) { options.too_long = TooLong::kTruncate; }),
            "data.too_long: truncate cuts examples, but the groups of memory are kept whole");
  EXPECT_EQ(text([](PlanOptions& options) { options.too_long = TooLong::kSplit; }),
            "data.too_long: split cuts examples, but the groups of memory are kept whole");
  EXPECT_EQ(text([](PlanOptions& options) { options.strategy = Strategy::kFixedLength; }),
            "batch.strategy: fixed_length cuts examples, but the groups of memory are kept whole");
  EXPECT_EQ(text([](PlanOptions& options) { options.cross_example_attention = true; }),
            "batch.cross_example_attention: true joins examples, but the groups of memory are kept "
            "whole");
}

TEST(GroupRefusal, PaddingCountsEveryExampleOfTheGroupsOfAMicroBatch) {
  PlanOptions options = group_options(40);
  options.strategy = Strategy::kPadding;
  options.micro_batch_size = 2;
  options.max_tokens_per_micro_batch = 159;
  EXPECT_EQ(refusal(three_pairs(), options),
            "strategy padding may pad 4 examples to the longest of all (group 1 (examples 2 to 3) "
            "with 40 tokens): 160 rows in one micro-batch, more than "
            "batch.max_tokens_per_micro_batch = 159");
  options.max_tokens_per_micro_batch = 160;
  EXPECT_NO_THROW(Planner(three_pairs(), options));
}

TEST(GroupRefusal, PaddingFreeAndMultipackNameTheGroup) {
  PlanOptions options = group_options(40);
  options.strategy = Strategy::kPaddingFree;
  options.micro_batch_size = 2;
  options.max_tokens_per_micro_batch = 50;
  EXPECT_EQ(refusal(three_pairs(), options),
            "strategy padding_free may put the 2 longest groups (group 1 (examples 2 to 3) with 46 "
            "tokens and others) into one micro-batch: 56 tokens, more than "
            "batch.max_tokens_per_micro_batch = 50");
  options.strategy = Strategy::kMultipack;
  options.global_batch_size = 0;
  options.global_batch_tokens = 40;
  EXPECT_NE(refusal(three_pairs(), options).find("but group 1 (examples 2 to 3) has 46 tokens"),
            std::string::npos);
}

class GroupPlanFile : public ::testing::Test {
 protected:
  PlanOptions options_with(const std::string& header_rest, const std::string& lines) {
    const std::string path = folder_ / "plan.jsonl";
    test::write_bytes(path,
                      R"({"packtrain_plan": 1, "num_examples": 6)" + header_rest + "}\n" + lines);
    PlanOptions options = group_options(40);
    options.strategy = Strategy::kFile;
    options.max_tokens_per_micro_batch = 60;
    options.num_ranks = header_rest.empty() ? 1 : 2;
    options.plan_file = PlanFile::open(path);
    return options;
  }

  std::string message(const std::string& header_rest, const std::string& lines) {
    const std::string text = refusal(store_, options_with(header_rest, lines));
    return text.substr(std::min(text.size(), folder_.path().size() + 1));
  }

  GroupStore store_ = three_pairs();
  test::TemporaryFolder folder_;
};

TEST_F(GroupPlanFile, PlacesTheGroupsOfItsExamples) {
  const Planner planner(
      store_, options_with(R"(, "ranks": 2)", R"({"ranks": [[[4, 5, 0, 1]], [[2, 3]]]})"));
  const StepPlan plan = planner.plan(0);
  EXPECT_EQ(plan.num_groups, 3);
  EXPECT_EQ(groups_in(store_, plan.ranks[0][0]), (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(groups_in(store_, plan.ranks[1][0]), (std::vector<std::int64_t>{1}));
  EXPECT_TRUE(plan.ranks[0][0].front().is_prefix);
}

TEST_F(GroupPlanFile, StepsWithoutRanksKeepTheirGroupsWhole) {
  const Planner planner(store_,
                        options_with("", "{\"examples\": [2, 3, 4, 5]}\n{\"examples\": [0, 1]}\n"));
  EXPECT_EQ(planner.num_steps(1), 2);
  EXPECT_EQ(planner.plan(0).num_groups, 2);
  EXPECT_EQ(planner.plan(0).num_micro_batches(), 1);
  EXPECT_EQ(groups_in(store_, planner.plan(1).ranks[0][0]), (std::vector<std::int64_t>{0}));
}

TEST_F(GroupPlanFile, RefusesAGroupThatIsNotWhole) {
  EXPECT_EQ(message(R"(, "ranks": 2)", R"({"ranks": [[[0, 1, 2]], [[3, 4, 5]]]})"),
            "plan.jsonl:2: step 0, rank 0, micro-batch 0: group 1 (examples 2 to 3) is not "
            "whole: got the end, wanted example 3");
  EXPECT_EQ(message("", R"({"examples": [0, 1, 2, 4, 3, 5]})"),
            "plan.jsonl:2: step 0: group 1 (examples 2 to 3) is not "
            "whole: got example 4, wanted example 3");
  EXPECT_EQ(message("", R"({"examples": [1, 0, 2, 3, 4, 5]})"),
            "plan.jsonl:2: step 0: group 0 (examples 0 to 1) is not "
            "whole: got example 1, wanted example 0");
}

TEST_F(GroupPlanFile, RefusesAGroupThatIsThereTwiceOrNotAtAll) {
  EXPECT_EQ(message("", "{\"examples\": [0, 1, 2, 3]}\n{\"examples\": [0, 1, 4, 5]}\n"),
            "plan.jsonl:3: step 1: group 0 (examples 0 to 1) is in epoch 0 a second time, "
            "first in line 2");
  EXPECT_EQ(message("", R"({"examples": [0, 1, 2, 3]})"),
            "plan.jsonl: epoch 0 lacks 1 of 3 groups, the first is group 2 (examples 4 to 5)");
}

TEST(GroupEvaluation, HasEveryGroupWithLabelsOnce) {
  MemoryGroup masked = pair(4, 2, 3);
  masked.members[1].example.loss_mask.assign(7, 0);
  const GroupStore store(GroupKind::kPairs, {pair(4, 2, 3), masked, pair(10, 5, 6)});
  for (const bool shares : {true, false}) {
    const StepPlan plan = plan_evaluation(store, shares, 40, 2);
    EXPECT_EQ(plan.num_groups, 2);
    EXPECT_EQ(plan.num_examples, 4);
    EXPECT_EQ(plan.num_tokens, shares ? 22 + 10 : 31 + 13);
    EXPECT_EQ(plan.num_loss_tokens, 16);
    EXPECT_EQ(plan.loss_token_weight, 7);
    EXPECT_EQ(plan.group_weight, 2);
    EXPECT_EQ(groups_in(store, plan.ranks[0][0]),
              shares ? (std::vector<std::int64_t>{2, 0}) : (std::vector<std::int64_t>{2}));
  }
  EXPECT_EQ(test::error_of([&] { plan_evaluation(store, true, 21, 1); }).message(),
            "group 2 (examples 4 to 5) has 22 rows, more than batch.max_tokens_per_micro_batch = "
            "21");
}

}  // namespace
}  // namespace packtrain::group_refusal_test

// Strategy file: the plan of a file is the plan of the run, or there is an error that names the
// place.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/core/error.h"
#include "samplers/plan_file/plan_file.h"
#include "samplers/planner.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/samplers/lengths.h"

namespace packtrain::file_plan_test {
namespace {

using test::Examples;
using test::examples_of;

const test::EveryTokenCounts kCounter;

class FilePlan : public ::testing::Test {
 protected:
  // A file with these lines after its header; the data have `lengths`.
  PlanOptions options_with(const std::string& header_rest, const std::string& lines,
                           int num_ranks = 2) {
    const std::string path = folder_ / "plan.jsonl";
    test::write_bytes(path,
                      R"({"packtrain_plan": 1, "num_examples": 5)" + header_rest + "}\n" + lines);
    PlanOptions options;
    options.strategy = Strategy::kFile;
    options.max_length = 100;
    options.max_tokens_per_micro_batch = 100;
    options.num_ranks = num_ranks;
    options.plan_file = PlanFile::open(path);
    return options;
  }

  Planner planner(const PlanOptions& options) const {
    return {examples_.lengths, examples_.num_loss_tokens, kCounter, options};
  }

  std::string error(const PlanOptions& options) const {
    const Error found = test::error_of([&] { planner(options); });
    return found.message().substr(std::min(found.message().size(), folder_.path().size() + 1));
  }

  Examples examples_ = examples_of({10, 20, 30, 40, 50});
  test::TemporaryFolder folder_;
};

std::vector<std::vector<std::vector<std::int64_t>>> examples_at(const StepPlan& plan) {
  std::vector<std::vector<std::vector<std::int64_t>>> found;
  for (const auto& micro_batches : plan.ranks) {
    auto& rank = found.emplace_back();
    for (const MicroBatch& pieces : micro_batches) {
      auto& examples = rank.emplace_back();
      for (const Piece& piece : pieces) examples.push_back(piece.example);
    }
  }
  return found;
}

TEST_F(FilePlan, PutsEachExampleWhereTheFileSays) {
  const auto options = options_with(R"(, "ranks": 2)", R"({"ranks": [[[4], [1]], [[0, 2], []]]})"
                                                       "\n"
                                                       R"({"ranks": [[[3]], [[]]]})");
  const Planner plans = planner(options);
  EXPECT_EQ(plans.num_steps(1), 2);
  using Examples = std::vector<std::vector<std::vector<std::int64_t>>>;
  EXPECT_EQ(examples_at(plans.plan(0)), (Examples{{{4}, {1}}, {{0, 2}, {}}}));
  EXPECT_EQ(examples_at(plans.plan(1)), (Examples{{{3}}, {{}}}));
  EXPECT_EQ(plans.plan(0).num_examples, 4);
  EXPECT_EQ(plans.plan(0).num_tokens, 110);
  EXPECT_EQ(plans.plan(0).num_loss_tokens, 106);
}

// The file's steps are those of a sequential order; only their assignment is ours.
TEST_F(FilePlan, StepsWithoutRanksAreAssignedAsBalancedAssignsThem) {
  auto options = options_with("", "{\"examples\": [0, 1, 2]}\n{\"examples\": [3, 4]}\n");
  const Planner plans = planner(options);
  options.strategy = Strategy::kBalanced;
  options.order = OrderKind::kSequential;
  options.global_batch_size = 3;
  const Planner balanced = planner(options);
  ASSERT_EQ(plans.num_steps(3), balanced.num_steps(3));
  for (std::int64_t step = 0; step < balanced.num_steps(3); ++step) {
    EXPECT_EQ(plans.plan(step).ranks, balanced.plan(step).ranks) << step;
    EXPECT_EQ(plans.plan(step).epoch, balanced.plan(step).epoch) << step;
  }
}

TEST_F(FilePlan, EpochsOfAFileFollowEachOtherAndRepeat) {
  const auto options = options_with("",
                                    "{\"examples\": [0, 1, 2, 3, 4]}\n{\"epoch\": 1}\n"
                                    "{\"examples\": [4, 3]}\n{\"examples\": [2, 1, 0]}\n",
                                    1);
  const Planner plans = planner(options);
  EXPECT_EQ(plans.num_steps(2), 3);
  EXPECT_EQ(plans.num_steps(4), 6);
  EXPECT_EQ(plans.steps_per_epoch(), std::nullopt);
  EXPECT_EQ(plans.plan(1).num_examples, 2);
  EXPECT_EQ(plans.plan(3).ranks, plans.plan(0).ranks);
  EXPECT_EQ(plans.plan(3).epoch, 2);
  EXPECT_EQ(plans.plan(5).ranks, plans.plan(2).ranks);
}

TEST_F(FilePlan, AMicroBatchAboveALoweredBudgetIsDividedOnAllRanks) {
  const auto options = options_with(R"(, "ranks": 2)", R"({"ranks": [[[4, 3]], [[0, 1, 2]]]})");
  Planner plans = planner(options);
  plans.set_layouts(std::vector<PlanLayout>{{0, 50, options.cost, {}}});
  using Examples = std::vector<std::vector<std::vector<std::int64_t>>>;
  EXPECT_EQ(examples_at(plans.plan(0)), (Examples{{{4}, {3}}, {{0, 1}, {2}}}));
}

TEST_F(FilePlan, ExamplesThatAreNotTrainedAreLeftOutOfTheirStep) {
  examples_.num_loss_tokens[2] = 0;
  const auto options = options_with(R"(, "ranks": 2)", R"({"ranks": [[[4, 3]], [[0, 1, 2]]]})");
  EXPECT_EQ(test::examples_in(planner(options).plan(0)), (std::vector<std::int64_t>{0, 1, 3, 4}));
  EXPECT_EQ(planner(options).losses().masked_examples, 1);
}

TEST_F(FilePlan, OfOtherDataOrOtherRanksIsRefused) {
  const std::string lines = "{\"examples\": [0, 1, 2, 3, 4]}";
  const std::string digest = lengths_digest(examples_.lengths);
  const auto of_these = options_with(R"(, "lengths": ")" + digest + "\"", lines);
  EXPECT_EQ(planner(of_these).num_steps(1), 1);
  EXPECT_EQ(error(options_with(R"(, "lengths": "00")", lines)),
            "plan.jsonl:1: the lengths that the plan was made for are not those of data.train");
  EXPECT_EQ(error(options_with(R"(, "ranks": 2)", R"({"ranks": [[[4, 3]], [[0, 1, 2]]]})", 3)),
            "plan.jsonl: the plan is for 2 ranks, but this run has 3");
  const auto options = options_with("", lines);
  examples_ = examples_of({10, 20});
  EXPECT_EQ(error(options), "plan.jsonl:1: the plan is for 5 examples, but data.train has 2");
}

TEST_F(FilePlan, AnExampleTwiceInAnEpochIsRefused) {
  EXPECT_EQ(error(options_with("", "{\"examples\": [0, 1, 2]}\n{\"examples\": [3, 4, 1]}\n")),
            "plan.jsonl:3: step 1: example 1 is in epoch 0 a second time, first in line 2");
}

TEST_F(FilePlan, AMissingExampleIsRefusedUnlessTheHeaderAllowsIt) {
  const std::string lines = "{\"examples\": [0, 2]}\n";
  EXPECT_EQ(error(options_with("", lines)),
            "plan.jsonl: epoch 0 lacks 3 of 5 examples, the first is example 1");
  const auto allowed = options_with(R"(, "leaves_examples_out": true)", lines);
  EXPECT_EQ(planner(allowed).plan(0).num_examples, 2);
}

TEST_F(FilePlan, AMicroBatchAboveTheBudgetIsRefused) {
  EXPECT_EQ(error(options_with(R"(, "ranks": 2)", R"({"ranks": [[[0]], [[1, 2, 3, 4]]]})")),
            "plan.jsonl:2: step 0, rank 1, micro-batch 0: got 140 tokens, wanted at most "
            "batch.max_tokens_per_micro_batch = 100");
}

TEST_F(FilePlan, AStepWithoutATrainedExampleIsRefused) {
  examples_.num_loss_tokens[2] = 0;
  EXPECT_EQ(error(options_with("", "{\"examples\": [0, 1, 3, 4]}\n{\"examples\": [2]}\n")),
            "plan.jsonl:3: step 1: data.too_long and masks leave none of its examples");
}

}  // namespace
}  // namespace packtrain::file_plan_test

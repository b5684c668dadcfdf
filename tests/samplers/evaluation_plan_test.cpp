#include "samplers/evaluation_plan.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "tests/samplers/lengths.h"

namespace packtrain::evaluation_plan_test {
namespace {

TEST(EvaluationPlan, CoversEveryExampleOnceWithinTheBudget) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const CounterRandom random(seed, "evaluation");
    const std::int64_t count = 1 + static_cast<std::int64_t>(random.below(0, 200));
    const int num_ranks = 1 + static_cast<int>(random.below(1, 9));
    const std::int64_t budget = 300 + static_cast<std::int64_t>(random.below(2, 900));
    const auto examples = test::draw_examples(seed, count, 300);
    const StepPlan plan =
        plan_evaluation(examples.lengths, examples.num_loss_tokens, budget, num_ranks);
    const auto seen = test::examples_in(plan);
    ASSERT_EQ(std::ssize(seen), count);
    for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(seen[static_cast<std::size_t>(i)], i);
    ASSERT_EQ(std::ssize(plan.ranks), num_ranks);
    std::int64_t tokens = 0;
    for (const auto& rank : plan.ranks) {
      ASSERT_EQ(std::ssize(rank), plan.num_micro_batches());
      for (const MicroBatch& micro_batch : rank) {
        ASSERT_LE(test::tokens_in(micro_batch), budget);
        tokens += test::tokens_in(micro_batch);
      }
    }
    EXPECT_EQ(plan.num_examples, count);
    EXPECT_EQ(plan.num_tokens, tokens);
    EXPECT_EQ(plan.num_loss_tokens, tokens - count);
  }
}

TEST(EvaluationPlan, AnExampleAboveALoweredBudgetHasAMicroBatchAlone) {
  const std::vector<std::int32_t> lengths = {40, 12, 90, 20, 30};
  const std::vector<std::int32_t> labels = {39, 11, 89, 19, 29};
  const StepPlan plan = plan_evaluation(lengths, labels, 200, 1, nullptr, 50);
  std::int64_t num_examples = 0;
  for (const MicroBatch& micro_batch : plan.ranks.front()) {
    num_examples += std::ssize(micro_batch);
    if (micro_batch.size() > 1) {
      EXPECT_LE(test::tokens_in(micro_batch), 50);
    }
  }
  EXPECT_EQ(num_examples, 5);
  EXPECT_EQ(plan.num_tokens, 192);
}

TEST(EvaluationPlan, LeavesOutOnlyEmptyExamples) {
  const std::vector<std::int32_t> lengths = {0, 5, 3};
  const std::vector<std::int32_t> labels = {0, 4, 0};
  const StepPlan plan = plan_evaluation(lengths, labels, 10, 2);
  EXPECT_EQ(test::examples_in(plan), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(plan.num_tokens, 8);
  EXPECT_EQ(plan.num_loss_tokens, 4);
}

TEST(EvaluationPlan, NamesAnExampleOverTheBudget) {
  const std::vector<std::int32_t> lengths = {5, 12};
  const std::vector<std::int32_t> labels = {4, 11};
  try {
    plan_evaluation(lengths, labels, 10, 2);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    EXPECT_NE(error.message().find("example 1 of the validation store has 12 tokens"),
              std::string::npos);
  }
}

class ManyCounts final : public CountSource {
 public:
  std::size_t size() const override { return std::size_t{1} << 32U; }
  std::int32_t count(std::size_t /*example*/) const override { return 5; }
};

TEST(EvaluationPlan, RefusesMoreExamplesThanItCanNumber) {
  const ManyCounts counts;
  try {
    plan_evaluation(counts, counts, 10, 1);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kData);
    EXPECT_NE(error.message().find("4294967296 examples, at most 4294967295"), std::string::npos);
  }
}

TEST(EvaluationPlan, FailsWithoutAnyLabel) {
  const std::vector<std::int32_t> lengths = {5};
  const std::vector<std::int32_t> labels = {0};
  EXPECT_THROW(plan_evaluation(lengths, labels, 10, 1), Error);
  const std::vector<std::int32_t> none;
  EXPECT_THROW(plan_evaluation(none, none, 10, 1), Error);
}

}  // namespace
}  // namespace packtrain::evaluation_plan_test

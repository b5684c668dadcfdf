// Tests a plan that continues another one, after the examples that the other has trained.
#include "samplers/plan_start.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "samplers/planner.h"
#include "tests/samplers/lengths.h"

namespace packtrain::plan_start_test {
namespace {

const test::EveryTokenCounts kCounter;
constexpr std::int64_t kNumExamples = 203;

Planner planner_for(const test::Examples& examples, const PlanOptions& options,
                    PlanStart start = {}) {
  return {examples.lengths, examples.num_loss_tokens, kCounter, options, std::move(start)};
}

test::Examples uneven_examples() {
  std::vector<std::int32_t> lengths;
  for (std::int32_t i = 0; i < kNumExamples; ++i) lengths.push_back(2 + i * 37 % 90);
  return test::examples_of(std::move(lengths));
}

PlanOptions counted(std::int64_t global_batch_size, OrderKind order = OrderKind::kRandom) {
  PlanOptions options;
  options.global_batch_size = global_batch_size;
  options.order = order;
  options.seed = 3;
  return options;
}

PlanOptions in_tokens(Strategy strategy, std::int64_t tokens) {
  PlanOptions options = counted(0);
  options.strategy = strategy;
  options.global_batch_tokens = tokens;
  options.max_tokens_per_micro_batch = 100;
  options.max_length = 100;
  return options;
}

// Returns how often each example begins in the steps first .. last - 1.
std::map<std::int64_t, int> visits(const Planner& planner, std::int64_t first, std::int64_t last) {
  std::map<std::int64_t, int> visits;
  for (std::int64_t step = first; step < last; ++step) {
    for (const auto& micro_batches : planner.plan(step).ranks) {
      for (const MicroBatch& pieces : micro_batches) {
        for (const Piece& piece : pieces) visits[piece.example] += piece.begin == 0 ? 1 : 0;
      }
    }
  }
  return visits;
}

void add(const std::map<std::int64_t, int>& more, std::map<std::int64_t, int>& sum) {
  for (const auto& [example, count] : more) sum[example] += count;
}

// Steps before the change, options after it.
using Change = std::pair<std::int64_t, PlanOptions>;

// Two epochs, in which the options change as said: every example is trained once in each.
void expect_each_once(const PlanOptions& first, const std::vector<Change>& changes) {
  const test::Examples examples = uneven_examples();
  std::map<std::int64_t, int> trained;
  PlanOptions options = first;
  PlanStart start;
  for (const auto& [step, next] : changes) {
    const Planner planner = planner_for(examples, options, start);
    add(visits(planner, start.step, step), trained);
    start = planner.start_at(step);
    EXPECT_EQ(start.num_cut, 0);
    options = next;
  }
  const Planner last = planner_for(examples, options, start);
  add(visits(last, start.step, last.num_steps(2)), trained);
  EXPECT_EQ(trained.size(), static_cast<std::size_t>(kNumExamples));
  for (const auto& [example, count] : trained) EXPECT_EQ(count, 2) << example;
}

TEST(PlanStart, AnotherBatchSizeTrainsEachExampleOfTheEpochOnce) {
  for (const OrderKind order :
       {OrderKind::kSequential, OrderKind::kRandom, OrderKind::kGroupByLength}) {
    expect_each_once(counted(16, order), {{5, counted(8, order)}});
    expect_each_once(counted(16, order), {{5, counted(64, order)}});
    expect_each_once(counted(16, order), {{13, counted(32, order)}});  // at the epoch's end
    expect_each_once(counted(16, order), {{17, counted(7, order)}});   // in the second one
  }
}

TEST(PlanStart, RepeatedChangesTrainEachExampleOfTheEpochOnce) {
  expect_each_once(counted(16), {{2, counted(8)}, {5, counted(4)}, {9, counted(20)}});
  expect_each_once(counted(16), {{5, counted(8)}, {40, counted(24)}});
  expect_each_once(counted(16), {{5, counted(8)}, {5, counted(4)}});
}

TEST(PlanStart, OtherOrdersAndStrategiesTrainEachExampleOfTheEpochOnce) {
  PlanOptions other_seed = counted(16);
  other_seed.seed = 4;
  expect_each_once(counted(16), {{5, other_seed}});
  expect_each_once(counted(16), {{5, counted(16, OrderKind::kSequential)}, {9, counted(5)}});
  expect_each_once(counted(16), {{5, in_tokens(Strategy::kBalanced, 300)}});
  expect_each_once(counted(16), {{5, in_tokens(Strategy::kMultipack, 300)}});
  expect_each_once(in_tokens(Strategy::kMultipack, 300), {{9, counted(16)}});
  expect_each_once(in_tokens(Strategy::kMultipack, 300),
                   {{9, in_tokens(Strategy::kMultipack, 500)}, {12, counted(3)}});
  expect_each_once(counted(16), {{5, in_tokens(Strategy::kFixedLength, 300)}});
}

TEST(PlanStart, ContinuesInTheOrderThatTheEpochHas) {
  const test::Examples examples = uneven_examples();
  const Planner before = planner_for(examples, counted(16));
  const Planner after = planner_for(examples, counted(8), before.start_at(5));
  const Planner undisturbed = planner_for(examples, counted(8));
  for (std::int64_t step = 0; step < 6; ++step) {
    EXPECT_EQ(test::examples_in(after.plan(5 + step)),
              test::examples_in(undisturbed.plan(10 + step)));
  }
}

TEST(PlanStart, TheSameOptionsContinueTheSamePlan) {
  const test::Examples examples = uneven_examples();
  for (const PlanOptions& options : {counted(16), in_tokens(Strategy::kBalanced, 300)}) {
    const Planner whole = planner_for(examples, options);
    for (const std::int64_t step : {0, 5, 13, 14}) {
      const Planner rest = planner_for(examples, options, whole.start_at(step));
      EXPECT_EQ(rest.num_steps(3), whole.num_steps(3));
      for (std::int64_t s = step; s < whole.num_steps(3); ++s) {
        EXPECT_EQ(rest.plan(s).ranks, whole.plan(s).ranks) << s;
        EXPECT_EQ(rest.position(s).epoch, whole.position(s).epoch) << s;
        EXPECT_EQ(rest.epoch_end(s), whole.epoch_end(s)) << s;
      }
    }
  }
}

TEST(PlanStart, CountsExamplesThatAStepHasCutAndTrainsThemAgain) {
  const test::Examples examples = uneven_examples();
  const Planner rows = planner_for(examples, in_tokens(Strategy::kFixedLength, 300));
  const PlanStart start = rows.start_at(4);
  EXPECT_EQ(start.num_cut, 1);
  EXPECT_EQ(std::ranges::count(start.trained, true), start.num_trained);
  const Planner after = planner_for(examples, counted(8), start);
  auto trained = visits(rows, 0, 4);
  add(visits(after, 4, after.num_steps(1)), trained);
  EXPECT_EQ(trained.size(), static_cast<std::size_t>(kNumExamples)) << "nothing is left out";
  EXPECT_EQ(std::ranges::count_if(trained, [](const auto& entry) { return entry.second == 2; }), 1);
}

TEST(PlanStart, WhereNothingIsLeftOfTheEpochTheNextOneBegins) {
  const test::Examples examples = uneven_examples();
  const Planner before = planner_for(examples, counted(16));
  PlanStart start = before.start_at(12);
  start.trained.assign(start.trained.size(), true);
  const Planner after = planner_for(examples, counted(16), start);
  EXPECT_EQ(after.position(12).epoch, 1);
  EXPECT_EQ(after.num_steps(1), 12);
  EXPECT_EQ(after.num_steps(2), 25);
}

}  // namespace
}  // namespace packtrain::plan_start_test

#include "samplers/epochs.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "samplers/planner.h"
#include "tests/samplers/lengths.h"

namespace packtrain::epochs_test {
namespace {

constexpr std::int32_t kLongest = 600;
const test::EveryTokenCounts kCounter;

Planner planner_for(const test::Examples& examples, const PlanOptions& options) {
  return {examples.lengths, examples.num_loss_tokens, kCounter, options};
}

PlanOptions in_tokens(std::int64_t global_batch_tokens) {
  PlanOptions options;
  options.global_batch_size = 0;
  options.global_batch_tokens = global_batch_tokens;
  return options;
}

test::Examples uneven_examples() {
  std::vector<std::int32_t> lengths;
  for (std::int32_t i = 0; i < 300; ++i) lengths.push_back(2 + i * 37 % kLongest);
  return test::examples_of(std::move(lengths));
}

TEST(StepsInTokens, HoldAsManyExamplesAsFit) {
  const test::Examples examples = test::examples_of({5, 4, 3, 2, 9, 1, 8});
  PlanOptions options = in_tokens(10);
  options.order = OrderKind::kSequential;
  test::Examples labelled = examples;
  labelled.num_loss_tokens.assign(examples.lengths.size(), 1);
  const Planner planner = planner_for(labelled, options);
  std::vector<std::vector<std::int64_t>> steps;
  for (std::int64_t s = 0; s < planner.num_steps(1); ++s) {
    steps.push_back(test::examples_in(planner.plan(s)));
  }
  EXPECT_EQ(steps, (std::vector<std::vector<std::int64_t>>{{0, 1}, {2, 3}, {4, 5}, {6}}));
}

TEST(StepsInTokens, ALongExampleIsAStepOfItsOwn) {
  PlanOptions options = in_tokens(10);
  options.order = OrderKind::kSequential;
  options.too_long = TooLong::kSplit;
  options.max_length = 8;
  const test::Examples examples = test::examples_of({3, 30, 4});
  const Planner planner = planner_for(examples, options);
  ASSERT_EQ(planner.num_steps(1), 3);
  EXPECT_EQ(planner.plan(1).num_tokens, 30);
}

// Counts how often a length is asked for.
class CountedLengths final : public CountSource {
 public:
  explicit CountedLengths(std::span<const std::int32_t> lengths) : lengths_(lengths) {}
  std::size_t size() const override { return lengths_.size(); }
  std::int32_t count(std::size_t example) const override {
    ++num_asked_;
    return lengths_[example];
  }
  std::int64_t num_asked() const { return num_asked_; }

 private:
  std::span<const std::int32_t> lengths_;
  mutable std::int64_t num_asked_ = 0;
};

TEST(Epochs, OfOneOrderAreCountedOnce) {
  const test::Examples examples = uneven_examples();
  for (const Strategy strategy : {Strategy::kBalanced, Strategy::kMultipack}) {
    const CountedLengths lengths(examples.lengths);
    PlanOptions options = in_tokens(800);
    options.order = OrderKind::kSequential;
    options.strategy = strategy;
    options.max_tokens_per_micro_batch = 800;
    const Planner planner(lengths, examples.num_loss_tokens, kCounter, options);
    const std::int64_t first = planner.num_steps(1);
    const std::int64_t before = lengths.num_asked();
    EXPECT_EQ(planner.num_steps(100'000), 100'000 * first);
    EXPECT_EQ(lengths.num_asked(), before);
    EXPECT_EQ(planner.position(99'999 * first + 1).epoch, 99'999);
  }
}

// An order and a walk over its lengths each: nothing is asked for twice.
TEST(Epochs, OfDifferentOrdersAreWalkedOnceAndNotKept) {
  constexpr std::int64_t kNumEpochs = 200;
  const test::Examples examples = uneven_examples();
  const CountedLengths lengths(examples.lengths);
  const Planner planner(lengths, examples.num_loss_tokens, kCounter, in_tokens(800));
  const std::int64_t before = lengths.num_asked();
  const std::int64_t num_steps = planner.num_steps(kNumEpochs);
  EXPECT_LE(lengths.num_asked() - before, kNumEpochs * std::ssize(examples.lengths));
  EXPECT_EQ(planner.num_steps(kNumEpochs), num_steps);
  EXPECT_TRUE(planner.is_epoch_prepared(0));
  for (std::int64_t epoch = 1; epoch < kNumEpochs; ++epoch) {
    EXPECT_FALSE(planner.is_epoch_prepared(epoch)) << epoch;
  }
}

TEST(Epochs, CountsThatOthersFoundAreTaken) {
  const test::Examples examples = uneven_examples();
  const Planner whole = planner_for(examples, in_tokens(800));
  const CountedLengths lengths(examples.lengths);
  const Planner planner(lengths, examples.num_loss_tokens, kCounter, in_tokens(800));
  const auto first = planner.first_uncounted_epoch();
  ASSERT_EQ(first, 0);
  std::vector<std::int64_t> counts;
  for (std::int64_t epoch = 0; epoch < 50; ++epoch) counts.push_back(whole.count_steps(epoch));
  planner.add_counts(*first, counts);
  const std::int64_t before = lengths.num_asked();
  EXPECT_EQ(planner.num_steps(50), whole.num_steps(50));
  EXPECT_EQ(lengths.num_asked(), before);
  EXPECT_EQ(planner.first_uncounted_epoch(), 50);
}

// A step's position follows from the epochs' numbers of steps alone, not from earlier queries.
TEST(Epochs, PositionsFollowFromTheEpochsNumbersOfSteps) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const test::Examples examples = test::draw_examples(seed, 1 + 7 * seed, kLongest);
    PlanOptions options = seed % 2 == 0 ? in_tokens(700) : PlanOptions{};
    options.seed = seed;
    const Planner planner = planner_for(examples, options);
    const std::int64_t num_steps = planner.num_steps(5);
    std::vector<std::int64_t> steps_of_epoch(5, 0);
    for (std::int64_t s = 0; s < num_steps; ++s) {
      const StepPosition backwards =
          planner_for(examples, options).position(num_steps - 1 - s);  // no call before it
      const StepPosition at = planner.position(num_steps - 1 - s);
      ASSERT_EQ(at.epoch, backwards.epoch);
      ASSERT_EQ(at.step_of_epoch, backwards.step_of_epoch);
      ++steps_of_epoch[static_cast<std::size_t>(at.epoch)];
    }
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      EXPECT_EQ(steps_of_epoch[static_cast<std::size_t>(epoch)],
                planner.num_steps(epoch + 1) - planner.num_steps(epoch));
    }
  }
}

TEST(Epochs, DifferInStepsWhereTheseAreCountedInTokens) {
  const test::Examples examples = uneven_examples();
  const Planner planner = planner_for(examples, in_tokens(800));
  std::vector<std::int64_t> counts;
  for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
    counts.push_back(planner.num_steps(epoch + 1) - planner.num_steps(epoch));
  }
  EXPECT_NE(std::ranges::min(counts), std::ranges::max(counts));
}

TEST(Epochs, AMaximumOfStepsEndsTheCount) {
  const test::Examples examples = test::draw_examples(0, 300, kLongest);
  for (const PlanOptions& options : {in_tokens(800), PlanOptions{}}) {
    const Planner planner = planner_for(examples, options);
    const std::int64_t num_steps = planner.num_steps(3);
    EXPECT_EQ(planner.num_steps(3, num_steps - 1), num_steps - 1);
    EXPECT_EQ(planner.num_steps(3, num_steps + 1), num_steps);
    EXPECT_EQ(planner.num_steps(1'000'000, 2), 2);
  }
}

TEST(Epochs, AMaximumOfStepsIsTheRunsLengthAndRepeatsEpochs) {
  const test::Examples examples = test::draw_examples(0, 300, kLongest);
  for (const PlanOptions& options : {in_tokens(800), PlanOptions{}}) {
    const Planner planner = planner_for(examples, options);
    RunSection run;
    run.num_epochs = 2;
    EXPECT_EQ(planner.num_run_steps(run), planner.num_steps(2));
    for (const std::int64_t most : {std::int64_t{1}, planner.num_steps(5) + 1}) {
      run.max_steps = most;
      EXPECT_EQ(planner.num_run_steps(run), most);
    }
    EXPECT_EQ(planner.position(planner.num_steps(5)).epoch, 5);
  }
}

TEST(Epochs, TheLastStepOfAnEpochIsKnown) {
  const test::Examples examples = uneven_examples();
  for (const PlanOptions& options : {in_tokens(800), PlanOptions{}}) {
    const std::int64_t num_steps = planner_for(examples, options).num_steps(4);
    const Planner planner = planner_for(examples, options);
    for (std::int64_t step = 0; step + 1 < num_steps; ++step) {
      const bool ends = planner.ends_epoch(step);
      EXPECT_EQ(ends, planner.position(step + 1).epoch > planner.position(step).epoch) << step;
    }
  }
}

}  // namespace
}  // namespace packtrain::epochs_test

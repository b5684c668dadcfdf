#include "samplers/planner.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "framework/core/error.h"
#include "tests/samplers/lengths.h"
#include "tests/samplers/pack_options.h"
#include "tests/samplers/plan_errors.h"

namespace packtrain::planner_test {
namespace {

using test::draw_examples;
using test::draw_options;
using test::draw_options_with_packs;
using test::error_of;
using test::Examples;
using test::examples_in;
using test::examples_of;
using test::expect_contains;
using test::kLongest;
using test::make_planner;
using test::rows_in;

constexpr std::uint64_t kNumDraws = 200;

// The draws cover fewer examples than ranks, one example, and batches larger than the store.
Examples draw(std::uint64_t seed) {
  const CounterRandom random(seed, "test sizes");
  return draw_examples(seed, 1 + static_cast<std::int64_t>(random.below(0, 150)), kLongest);
}

TEST(Plan, EveryExampleAppearsExactlyOnceAnEpoch) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const Examples examples = draw(seed);
    const Planner planner = make_planner(examples, draw_options_with_packs(seed, kLongest));
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      std::map<std::int64_t, int> times;
      for (std::int64_t s = planner.num_steps(epoch); s < planner.num_steps(epoch + 1); ++s) {
        const StepPlan plan = planner.plan(s);
        EXPECT_EQ(plan.epoch, epoch);
        for (const std::int64_t example : examples_in(plan)) ++times[example];
      }
      ASSERT_EQ(times.size(), examples.lengths.size()) << "seed " << seed;
      for (const auto& [example, count] : times) ASSERT_EQ(count, 1) << "example " << example;
    }
  }
}

TEST(Plan, EveryRankHasTheSameNumberOfMicroBatchesWithinTheBudget) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const PlanOptions options = draw_options_with_packs(seed, kLongest);
    const Examples examples = draw(seed);
    const Planner planner = make_planner(examples, options);
    for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
      const StepPlan plan = planner.plan(step);
      ASSERT_EQ(std::ssize(plan.ranks), options.num_ranks);
      ASSERT_GE(plan.num_micro_batches(), 1);
      for (const auto& rank : plan.ranks) {
        ASSERT_EQ(std::ssize(rank), plan.num_micro_batches());
        for (const MicroBatch& micro_batch : rank) {
          ASSERT_LE(rows_in(micro_batch, options.strategy), options.max_tokens_per_micro_batch);
        }
      }
    }
  }
}

TEST(Plan, CountsAreThoseOfTheStep) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const Examples examples = draw(seed);
    const PlanOptions options = draw_options_with_packs(seed, kLongest);
    const Planner planner = make_planner(examples, options);
    const std::int64_t last = planner.num_steps(1) - 1;
    for (std::int64_t step = 0; step <= last; ++step) {
      const StepPlan plan = planner.plan(step);
      std::int64_t tokens = 0;
      for (const std::int64_t example : examples_in(plan)) {
        tokens += examples.lengths[static_cast<std::size_t>(example)];
      }
      EXPECT_EQ(plan.num_examples, std::ssize(examples_in(plan)));
      EXPECT_EQ(plan.num_tokens, tokens);
      EXPECT_EQ(plan.num_loss_tokens, tokens - plan.num_examples);
      if (step < last && options.global_batch_size > 0) {
        EXPECT_EQ(plan.num_examples, options.global_batch_size);
      }
      if (options.global_batch_tokens > 0 && plan.num_examples > 1) {
        EXPECT_LE(plan.num_tokens, options.global_batch_tokens);
      }
    }
  }
}

TEST(Plan, ExamplesOfAStepDependNeitherOnRanksNorOnStrategy) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const Examples examples = draw(seed);
    PlanOptions options = draw_options(seed, kLongest);
    options.max_tokens_per_micro_batch = kLongest * options.micro_batch_size;
    const Planner reference = make_planner(examples, options);
    for (const Strategy strategy :
         {Strategy::kPadding, Strategy::kPaddingFree, Strategy::kBalanced}) {
      for (const int num_ranks : {1, 3, 64}) {
        options.strategy = strategy;
        options.num_ranks = num_ranks;
        const Planner planner = make_planner(examples, options);
        for (std::int64_t step = 0; step < 3; ++step) {
          ASSERT_EQ(examples_in(planner.plan(step)), examples_in(reference.plan(step)));
        }
      }
    }
  }
}

void expect_the_same_in_any_call_order(const Examples& examples, const PlanOptions& options) {
  const std::int64_t num_steps = make_planner(examples, options).num_steps(4);
  std::vector<StepPlan> expected;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    expected.push_back(make_planner(examples, options).plan(step));  // no call before it
  }
  const Planner planner = make_planner(examples, options);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      const CounterRandom random(t, "call order");
      for (std::uint64_t call = 0; call < 200; ++call) {
        const auto step = random.below(call, static_cast<std::uint64_t>(num_steps));
        if (planner.plan(static_cast<std::int64_t>(step)).ranks != expected[step].ranks) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) EXPECT_EQ(count, 0);
}

TEST(Plan, IsTheSameInAnyCallOrderAndFromSeveralThreads) {
  const Examples examples = draw_examples(4, 500, kLongest);
  PlanOptions options = draw_options(1, kLongest);
  options.order = OrderKind::kRandom;
  options.max_tokens_per_micro_batch = kLongest * 5;
  expect_the_same_in_any_call_order(examples, options);
  options.global_batch_size = 0;
  options.global_batch_tokens = kLongest * 10;
  for (const Strategy strategy : {Strategy::kMultipack, Strategy::kFixedLength}) {
    options.strategy = strategy;
    expect_the_same_in_any_call_order(examples, options);
  }
}

TEST(Plan, RejectsANegativeStep) {
  const Examples examples = examples_of({5, 6});
  const Planner planner = make_planner(examples, {});
  EXPECT_THROW(planner.plan(-1), Error);
}

TEST(Order, SequentialIsTheStoresOrder) {
  const Examples examples = examples_of({5, 6, 7, 8, 9});
  PlanOptions options;
  options.order = OrderKind::kSequential;
  options.global_batch_size = 2;
  const Planner planner = make_planner(examples, options);
  EXPECT_EQ(planner.num_steps(1), 3);
  EXPECT_EQ(examples_in(planner.plan(0)), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(examples_in(planner.plan(2)), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(examples_in(planner.plan(4)), (std::vector<std::int64_t>{2, 3}));
}

TEST(Order, RandomDiffersBetweenEpochsAndSeeds) {
  const Examples examples = draw_examples(1, 100, kLongest);
  PlanOptions options;
  options.global_batch_size = 10;
  const Planner planner = make_planner(examples, options);
  EXPECT_NE(examples_in(planner.plan(0)), examples_in(planner.plan(10)));
  options.seed = 1;
  EXPECT_NE(examples_in(planner.plan(0)), examples_in(make_planner(examples, options).plan(0)));
}

TEST(Order, RandomPutsEveryExampleEverywhereEquallyOften) {
  const Examples examples = examples_of(std::vector<std::int32_t>(8, 5));
  PlanOptions options;
  options.global_batch_size = 1;
  const Planner planner = make_planner(examples, options);
  constexpr int kNumEpochs = 4000;
  std::array<std::array<int, 8>, 8> times{};  // [place][example]
  for (std::int64_t step = 0; step < 8 * kNumEpochs; ++step) {
    const std::int64_t example = examples_in(planner.plan(step)).front();
    ++times[static_cast<std::size_t>(step % 8)][static_cast<std::size_t>(example)];
  }
  // Binomial(4000, 1/8): mean 500, standard deviation 21.
  for (const auto& place : times) {
    for (const int count : place) EXPECT_NEAR(count, 500, 105);
  }
}

TEST(Planner, NamesAnExampleThatFitsNoMicroBatch) {
  PlanOptions options;
  options.max_tokens_per_micro_batch = 10;
  const Error error = error_of(examples_of({4, 8, 11, 5}), options);
  EXPECT_EQ(error.category(), ErrorCategory::kConfig);
  expect_contains(error.message(),
                  "example 2 has 11 tokens, more than batch.max_tokens_per_micro_batch = 10");
  expect_contains(error.advice(), "data.max_length");
}

TEST(Plan, CountsBeyond31Bits) {
  constexpr std::int32_t kHuge = 1 << 30;
  PlanOptions options;
  options.max_length = kHuge;
  options.max_tokens_per_micro_batch = kHuge;
  options.num_ranks = 2;
  options.cost.quadratic = 1;
  const StepPlan plan = make_planner(examples_of({kHuge, kHuge, kHuge, 10}), options).plan(0);
  EXPECT_EQ(plan.num_tokens, 3 * std::int64_t{kHuge} + 10);
  EXPECT_EQ(plan.num_loss_tokens, plan.num_tokens - 4);
  EXPECT_EQ(plan.num_micro_batches(), 2);
}

TEST(Planner, RejectsOptionsOutOfRange) {
  const Examples examples = examples_of({4, 8});
  PlanOptions options;
  options.global_batch_size = 0;
  expect_contains(error_of(examples, options).message(), "batch.global_batch_size");
  options = {};
  options.global_batch_tokens = -1;
  expect_contains(error_of(examples, options).message(), "batch.global_batch_tokens");
  options = {};
  options.num_ranks = 0;
  expect_contains(error_of(examples, options).message(), "number of ranks");
  options = {};
  options.max_tokens_per_micro_batch = std::int64_t{1} << 31;
  expect_contains(error_of(examples, options).message(), "batch.max_tokens_per_micro_batch");
}

}  // namespace
}  // namespace packtrain::planner_test

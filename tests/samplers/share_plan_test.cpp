// Plans of a share of a step's examples.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "framework/core/random.h"
#include "samplers/planner.h"
#include "samplers/step_share.h"
#include "tests/samplers/lengths.h"
#include "tests/samplers/pack_options.h"

namespace packtrain::share_plan_test {
namespace {

using test::draw_examples;
using test::draw_options_with_packs;
using test::Examples;
using test::examples_in;
using test::kLongest;
using test::make_planner;

constexpr std::uint64_t kNumDraws = 100;

CounterRandom random_of(std::uint64_t seed) {
  return {seed, "share"};
}

TEST(SharePlan, HasTheNearestNumberOfTheStepsExamplesAndAtLeastOne) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const Examples examples = draw_examples(seed, 90, kLongest);
    const Planner planner = make_planner(examples, draw_options_with_packs(seed, kLongest));
    const std::vector<std::int64_t> all = examples_in(planner.plan(1 % planner.num_steps(1)));
    for (const double share : {0.01, 0.3, 0.5, 1.0}) {
      const StepPlan plan = planner.plan_share(1 % planner.num_steps(1), share, random_of(seed));
      const std::vector<std::int64_t> chosen = examples_in(plan);
      EXPECT_TRUE(std::ranges::includes(all, chosen)) << seed;
      const auto wanted = std::llround(share * static_cast<double>(all.size()));
      EXPECT_EQ(std::ssize(chosen), std::max(1LL, wanted)) << seed;
      EXPECT_EQ(plan.num_examples, std::ssize(chosen)) << seed;
      std::int64_t num_tokens = 0;
      for (const std::int64_t example : chosen) {
        num_tokens += examples.lengths[static_cast<std::size_t>(example)];
      }
      EXPECT_EQ(plan.num_tokens, num_tokens) << seed;
      EXPECT_EQ(plan.num_loss_tokens, num_tokens - std::ssize(chosen)) << seed;
      EXPECT_EQ(plan.loss_token_weight, static_cast<double>(plan.num_loss_tokens)) << seed;
    }
  }
}

TEST(SharePlan, HasTheSameExamplesOnAnyNumberOfRanks) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const Examples examples = draw_examples(seed, 90, kLongest);
    PlanOptions options = draw_options_with_packs(seed, kLongest);
    options.num_ranks = 1;
    const std::vector<std::int64_t> one =
        examples_in(make_planner(examples, options).plan_share(0, 0.5, random_of(seed)));
    options.num_ranks = 5;
    const StepPlan plan = make_planner(examples, options).plan_share(0, 0.5, random_of(seed));
    EXPECT_EQ(examples_in(plan), one) << seed;
    ASSERT_EQ(plan.ranks.size(), 5U) << seed;
    for (const auto& micro_batches : plan.ranks) {
      EXPECT_EQ(micro_batches.size(), plan.ranks.front().size()) << seed;
      for (const MicroBatch& pieces : micro_batches) {
        EXPECT_LE(test::rows_in(pieces, options.strategy), options.max_tokens_per_micro_batch);
      }
    }
  }
}

TEST(SharePlan, DependsOnTheRandomStreamAndChoosesEachExampleAsOften) {
  const Examples examples = draw_examples(3, 20, kLongest);
  PlanOptions options;
  options.global_batch_size = 20;
  const Planner planner = make_planner(examples, options);
  std::vector<int> times(20, 0);
  std::set<std::vector<std::int64_t>> different;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const std::vector<std::int64_t> chosen =
        examples_in(planner.plan_share(0, 0.5, random_of(seed)));
    different.insert(chosen);
    for (const std::int64_t example : chosen) ++times[static_cast<std::size_t>(example)];
  }
  EXPECT_GT(different.size(), 390U);
  for (const int count : times) EXPECT_NEAR(count, 200, 50);
}

TEST(SharePlan, HasNoRanksWithoutLabels) {
  Examples examples = draw_examples(3, 20, kLongest);
  // A row of fixed_length may have no label where an example has few.
  class NoLabels final : public LossCounter {
   public:
    std::int64_t loss_tokens_before(std::int64_t, std::int32_t num_tokens) const override {
      return num_tokens > 590 ? 1 : 0;
    }
  } counter;
  std::ranges::fill(examples.lengths, 600);
  std::ranges::fill(examples.num_loss_tokens, 1);
  PlanOptions options;
  options.strategy = Strategy::kFixedLength;
  options.order = OrderKind::kSequential;
  options.max_length = 100;
  options.global_batch_size = 0;
  options.global_batch_tokens = 100;
  options.max_tokens_per_micro_batch = 100;
  const Planner planner(examples.lengths, examples.num_loss_tokens, counter, options);
  EXPECT_TRUE(planner.plan_share(0, 1, random_of(0)).ranks.empty());
  EXPECT_FALSE(planner.plan_share(5, 1, random_of(0)).ranks.empty());
}

TEST(StepShare, KeepsJoinedPiecesTogetherAndPacksApart) {
  StepPieces step;
  for (std::int64_t e = 0; e < 12; ++e) {
    step.pieces.push_back({.example = e, .length = 4, .joined = e % 3 != 0});
  }
  step.pack_begins = {0, 6};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const StepPieces share = share_of(step, 0.5, random_of(seed));
    ASSERT_EQ(share.pieces.size(), 6U);
    for (const std::size_t begin : {std::size_t{0}, std::size_t{3}}) {
      const std::int64_t first = share.pieces[begin].example;
      EXPECT_EQ(first % 3, 0);
      EXPECT_EQ(share.pieces[begin + 2].example, first + 2);
    }
    const bool is_one_pack = share.pieces[0].example / 6 == share.pieces[3].example / 6;
    EXPECT_EQ(share.pack_begins.size(), is_one_pack ? 1U : 2U) << seed;
  }
}

}  // namespace
}  // namespace packtrain::share_plan_test

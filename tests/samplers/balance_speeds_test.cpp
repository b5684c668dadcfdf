// Balancing over ranks of different speed.
#include <gtest/gtest.h>

#include <limits>

#include "framework/core/error.h"
#include "framework/core/random.h"
#include "samplers/balance/balance.h"
#include "samplers/balance/bins.h"
#include "tests/samplers/balance_items.h"
#include "tests/samplers/lengths.h"

namespace packtrain::balance_speeds_test {
namespace {

using test::items_of;
using test::kNoLimit;

bool same(const Placement& a, const Placement& b) {
  const auto same_slot = [](const Placement::Slot& x, const Placement::Slot& y) {
    return x.rank == y.rank && x.micro_batch == y.micro_batch;
  };
  return a.num_micro_batches == b.num_micro_batches &&
         std::ranges::equal(a.slots, b.slots, same_slot);
}

TEST(BalanceSpeeds, GiveARankOfHalfSpeedHalfTheCost) {
  const auto items = items_of(test::draw_lognormal(1, 64, 290, 0.5), 1.0 / (6 * 4096));
  std::vector<double> speeds(8, 8 / 7.5);
  speeds[3] = 4 / 7.5;
  const auto micro_batch = test::loads(items, balance(items, 8, kNoLimit, speeds), 8).front();
  for (std::size_t rank = 0; rank < 8; ++rank) {
    const double expected = rank == 3 ? 0.5 : 1.0;
    EXPECT_NEAR(micro_batch[rank].cost / micro_batch[0].cost, expected, 0.01) << "rank " << rank;
  }
}

TEST(BalanceSpeeds, LeaveNothingToARankTooSlowForAnyItem) {
  const auto items = items_of(std::vector<std::int32_t>{10, 10, 10, 10});
  const auto micro_batch =
      test::loads(items, balance(items, 2, kNoLimit, std::vector<double>{1.95, 0.05}), 2).front();
  EXPECT_EQ(micro_batch[0].tokens, 40);
  EXPECT_EQ(micro_batch[1].tokens, 0);
}

TEST(BalanceSpeeds, AllEqualChangeNothing) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const CounterRandom random(seed, "equal speeds");
    const auto items = items_of(test::draw_examples(seed, 60, 500).lengths, 0.001);
    const int num_ranks = 1 + static_cast<int>(random.below(0, 10));
    const std::int64_t budget = 500 + static_cast<std::int64_t>(random.below(1, 4000));
    const std::vector<double> speeds(static_cast<std::size_t>(num_ranks), 0.7);
    ASSERT_TRUE(same(balance(items, num_ranks, budget), balance(items, num_ranks, budget, speeds)));
  }
}

TEST(BalanceSpeeds, AreNeverWorseThanIgnoringThem) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const CounterRandom random(seed, "balance");
    const auto count = 1 + static_cast<std::int64_t>(random.below(0, 100));
    const auto items =
        items_of(test::draw_examples(seed, count, 500).lengths, random.uniform(1) / 100);
    const int num_ranks = 1 + static_cast<int>(random.below(2, 12));
    const std::int64_t budget =
        random.below(3, 2) == 0 ? kNoLimit : 500 + static_cast<std::int64_t>(random.below(4, 1500));
    const auto speeds = test::draw_speeds(seed, num_ranks);
    const Placement ignoring = balance(items, num_ranks, budget);
    const Placement honouring = balance(items, num_ranks, budget, speeds);
    ASSERT_LE(honouring.num_micro_batches, ignoring.num_micro_batches) << "seed " << seed;
    for (const auto& micro_batch : test::loads(items, honouring, num_ranks)) {
      for (const test::Load& load : micro_batch) ASSERT_LE(load.tokens, budget);
    }
    if (honouring.num_micro_batches < ignoring.num_micro_batches) continue;  // that comes first
    ASSERT_LE(test::step_time(items, honouring, num_ranks, speeds),
              test::step_time(items, ignoring, num_ranks, speeds) * (1 + 1e-12))
        << "seed " << seed;
  }
}

TEST(BalanceSpeeds, BringAStepCloseToItsBound) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto items = items_of(test::draw_lognormal(seed, 64, 290, 0.5));
    const auto speeds = test::draw_speeds(seed, 8);
    const double fair = test::bound(items, 8);  // the speeds add up to 8; no item is a giant here
    EXPECT_LE(test::step_time(items, balance(items, 8, kNoLimit, speeds), 8, speeds), fair * 1.01)
        << "seed " << seed;
  }
}

TEST(BalanceSpeeds, PairTheSlowestBinsOfEachRank) {
  const auto items = items_of(std::vector<std::int32_t>{8, 6, 3, 1});
  const std::vector<double> slowness{1, 2};
  Bins bins;
  bins.reset(items, slowness, 2, kNoLimit);
  bins.append(0, 2);  // rank 0: 3, then 8
  bins.append(2, 0);
  bins.append(1, 1);  // rank 1: 12, then 2
  bins.append(3, 3);
  ASSERT_EQ(bins.total(), 12 + 8);
  bins.group_by_time();
  EXPECT_EQ(bins.total(), 12 + 3);
}

TEST(BalanceSpeeds, OfTheOptionsReachThePlan) {
  const auto examples = test::examples_of(std::vector<std::int32_t>(60, 100));
  const test::EveryTokenCounts counter;
  PlanOptions options;
  options.num_ranks = 2;
  options.global_batch_size = 60;
  options.speeds = {4.0 / 3, 2.0 / 3};
  const StepPlan plan =
      Planner(examples.lengths, examples.num_loss_tokens, counter, options).plan(0);
  EXPECT_EQ(test::tokens_in(plan.ranks[0][0]), 4000);
  EXPECT_EQ(test::tokens_in(plan.ranks[1][0]), 2000);
}

TEST(BalanceSpeeds, RejectInvalidSpeeds) {
  const auto items = items_of(std::vector<std::int32_t>{7, 3});
  const auto with = [&](const std::vector<double>& speeds) { balance(items, 2, 10, speeds); };
  EXPECT_THROW(with({1.0}), Error);
  EXPECT_THROW(with({1.0, 0.0}), Error);
  EXPECT_THROW(with({1.0, -1.0}), Error);
  EXPECT_THROW(with({1.0, std::numeric_limits<double>::quiet_NaN()}), Error);
  EXPECT_THROW(with({1.0, std::numeric_limits<double>::infinity()}), Error);
}

}  // namespace
}  // namespace packtrain::balance_speeds_test

#include "samplers/balance/trade.h"

#include <gtest/gtest.h>

#include "framework/core/random.h"
#include "samplers/batches/packs.h"
#include "samplers/order.h"
#include "samplers/statistics.h"
#include "samplers/strategies/balanced.h"
#include "samplers/strategies/multipack.h"
#include "tests/samplers/balance_items.h"
#include "tests/samplers/lengths.h"

namespace packtrain::trade_test {
namespace {

using test::items_of;

const test::EveryTokenCounts kCounter;

TEST(Trade, GivesLongItemsForShorterOnesOfAsManyTokens) {
  const auto items = items_of(std::vector<std::int32_t>{6, 6, 4, 4, 4, 4, 2, 2}, 1.0);
  const std::vector<double> slowness{1, 1};
  Bins bins;
  bins.reset(items, slowness, 1, 16);
  for (const ItemNumber item : {0U, 1U, 6U, 7U}) bins.append(0, item);
  for (const ItemNumber item : {2U, 3U, 4U, 5U}) bins.append(1, item);
  ASSERT_EQ(bins.total(), 80 + 16);
  TradeSearch().improve(bins);  // 6 + 2 for 4 + 4
  EXPECT_EQ(bins.total(), 72 + 16);
  EXPECT_EQ(bins.bins[0].tokens, 16);
  EXPECT_EQ(bins.bins[1].tokens, 16);
}

TEST(Trade, LeavesAlonePlacementsWithNothingToGive) {
  const auto items = items_of(std::vector<std::int32_t>{8, 4, 4}, 1.0);
  const Placement full{1, {{0, 0}, {1, 0}, {1, 0}}};
  const Placement same = trade(items, full, 2, 8);
  EXPECT_EQ(test::step_time(items, same, 2), test::step_time(items, full, 2));
  const Placement alone{1, {{0, 0}, {0, 0}, {0, 0}}};
  EXPECT_EQ(trade(items, alone, 1, 16).num_micro_batches, 1);
}

// Full bins of drawn items, on ranks of drawn speeds.
TEST(Trade, NeverMakesAStepLongerNorAMicroBatchTooLong) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const CounterRandom random(seed, "trades");
    const auto num_ranks = static_cast<int>(1 + random.below(0, 9));
    const auto lengths = test::draw_lognormal(seed, 1 + random.below(1, 300), 300, 1.0);
    const auto items = items_of(lengths, 1e-3);
    const auto speeds = test::draw_speeds(seed, num_ranks);
    constexpr std::int64_t kBudget = 4096;
    const Placement before = balance(items, num_ranks, kBudget, speeds);
    const Placement after = trade(items, before, num_ranks, kBudget, speeds);
    ASSERT_LE(after.num_micro_batches, before.num_micro_batches);
    ASSERT_LE(test::step_time(items, after, num_ranks, speeds),
              test::step_time(items, before, num_ranks, speeds) * (1 + 1e-12));
    for (const auto& micro_batch : test::loads(items, after, num_ranks)) {
      for (const test::Load& load : micro_batch) ASSERT_LE(load.tokens, kBudget);
    }
  }
}

// Returns the slowest rank's cost over the mean rank's, as a mean over 10 steps of packs.
double mean_cost_imbalance(std::int64_t capacity,
                           Assignment (*assign)(const StepPieces&, const PlanOptions&)) {
  PlanOptions options;
  options.strategy = Strategy::kMultipack;
  options.global_batch_size = 0;
  options.num_ranks = 4;
  options.global_batch_tokens = options.num_ranks * capacity;
  options.max_tokens_per_micro_batch = capacity;
  options.cost = {.linear = 1, .quadratic = 1.75e-5};  // of Llama-3-8B
  const test::Examples examples = test::examples_of(test::draw_lognormal(1, 4000, 300, 0.9));
  const Selection selection(examples.lengths, examples.num_loss_tokens, kCounter, options.too_long,
                            options.max_length);
  std::vector<ExampleIndex> order(selection.examples().begin(), selection.examples().end());
  arrange({options.order, options.seed, 0, selection}, 0, order);
  const auto batches = make_packs({selection, options, 0, order});
  double sum = 0;
  constexpr int kSteps = 10;
  for (int step = 0; step < kSteps; ++step) {
    StepPlan plan;
    plan.ranks = assign(batches->step(step), options);
    sum += plan_statistics(plan, options.cost, capacity, 1).cost_imbalance;
  }
  return sum / kSteps;
}

TEST(Trade, TakesMostOfTheImbalanceOutOfFullPacks) {
  for (const std::int64_t capacity : {4096, 8192, 16384}) {
    const double apart = mean_cost_imbalance(capacity, assign_balanced);
    const double traded = mean_cost_imbalance(capacity, assign_multipack);
    EXPECT_LT(traded - 1, 0.6 * (apart - 1)) << capacity << ": " << apart << ", " << traded;
  }
}

}  // namespace
}  // namespace packtrain::trade_test

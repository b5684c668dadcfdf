#include "samplers/balance/exchange.h"

#include <gtest/gtest.h>

#include "framework/core/random.h"
#include "samplers/balance/bins.h"
#include "tests/samplers/balance_items.h"
#include "tests/samplers/lengths.h"

namespace packtrain::exchange_test {
namespace {

using test::items_of;
using test::kNoLimit;

// Loads, budget and order of the lists, recomputed from the items.
void expect_consistent(const Bins& bins) {
  std::size_t num_items = 0;
  for (const Bins::Bin& bin : bins.bins) {
    std::int64_t tokens = 0;
    double cost = 0;
    ItemNumber last = kNoItem;
    for (ItemNumber item = bin.first; item != kNoItem; item = bins.next[item]) {
      tokens += bins.items[item].tokens;
      cost += bins.items[item].cost;
      ASSERT_TRUE(last == kNoItem || last < item);
      last = item;
      ++num_items;
    }
    ASSERT_EQ(bin.last, last);
    ASSERT_EQ(bin.tokens, tokens);
    ASSERT_LE(bin.tokens, bins.max_tokens);
    ASSERT_NEAR(bin.time, cost * bin.slowness, 1e-6);
  }
  ASSERT_EQ(num_items, bins.items.size());
}

TEST(Exchange, MovesItemsToAnotherMicroBatchWhereThatShortensTheStep) {
  const auto items = items_of(std::vector<std::int32_t>{8, 5, 5, 4, 1});
  const std::vector<double> slowness{1, 1};
  Bins bins;
  bins.reset(items, slowness, 2, kNoLimit);
  for (const ItemNumber item : {1U, 2U}) bins.append(0, item);
  bins.append(1, 3);
  bins.append(2, 0);
  bins.append(3, 4);
  ASSERT_EQ(bins.total(), 10 + 8);
  ExchangeSearch().improve(bins);
  EXPECT_EQ(bins.total(), 5 + 8);  // inside the micro-batches alone: 9 + 8
  expect_consistent(bins);
}

TEST(Exchange, SwapsPairsWhereNoSingleItemHelps) {
  // 10 + 9 + 3 against 11 + 5 + 4: 9 + 3 for 11 makes them equal.
  const auto items = items_of(std::vector<std::int32_t>{11, 10, 9, 5, 4, 3});
  const std::vector<double> slowness{1, 1};
  Bins bins;
  bins.reset(items, slowness, 1, kNoLimit);
  for (const ItemNumber item : {1U, 2U, 5U}) bins.append(0, item);
  for (const ItemNumber item : {0U, 3U, 4U}) bins.append(1, item);
  ExchangeSearch().improve(bins);
  EXPECT_EQ(bins.total(), 22);
  ExchangeSearch().improve_with_pairs(bins);
  EXPECT_EQ(bins.total(), 21);
  expect_consistent(bins);
}

TEST(Exchange, GivesASlowRankLess) {
  const auto items = items_of(std::vector<std::int32_t>{4, 4, 2, 2});
  const std::vector<double> slowness{2, 1};  // half as fast
  Bins bins;
  bins.reset(items, slowness, 1, kNoLimit);
  for (const ItemNumber item : {0U, 2U}) bins.append(0, item);
  for (const ItemNumber item : {1U, 3U}) bins.append(1, item);
  ASSERT_EQ(bins.total(), 12);
  ExchangeSearch().improve(bins);
  EXPECT_EQ(bins.total(), 8);  // 4 and 8
  expect_consistent(bins);
}

TEST(Exchange, OnlyImprovesAndKeepsLoadsAndItemsConsistent) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const CounterRandom random(seed, "exchange");
    const auto examples =
        test::draw_examples(seed, 2 + static_cast<std::int64_t>(random.below(0, 80)), 300);
    const auto items = test::sorted(items_of(examples.lengths, 0.001));
    const auto slowness = test::draw_speeds(seed, 1 + static_cast<int>(random.below(1, 6)));
    Bins bins;
    bins.reset(items, slowness, 90, 600);
    for (ItemNumber item = 0; item < items.size(); ++item) {
      std::size_t bin = random.below(item + 2, bins.bins.size());
      while (!bins.has_capacity(bin, item)) bin = (bin + 1) % bins.bins.size();
      bins.append(bin, item);
    }
    const double before = bins.total();
    ExchangeSearch search;
    search.improve(bins);
    const double after_singles = bins.total();
    ASSERT_LE(after_singles, before * (1 + 1e-12));
    expect_consistent(bins);
    search.improve_with_pairs(bins);
    ASSERT_LE(bins.total(), after_singles * (1 + 1e-12));
    expect_consistent(bins);
  }
}

}  // namespace
}  // namespace packtrain::exchange_test

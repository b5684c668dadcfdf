#include "samplers/balance/greedy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <optional>
#include <utility>

#include "framework/core/random.h"
#include "samplers/balance/balance.h"
#include "samplers/balance/earliest_finish.h"
#include "samplers/balance/exchange.h"
#include "tests/samplers/balance_items.h"
#include "tests/samplers/greedy_by_scan.h"

namespace packtrain::greedy_test {
namespace {

using test::items_of;

struct Case {
  std::vector<BalanceItem> items;  // descending cost
  int num_ranks = 1;
  int num_micro_batches = 1;
  std::int64_t budget = 0;
  std::vector<double> speeds;
};

// Budgets that hold the items in up to 5 micro-batches, or just not; whole costs, so that no sum
// is rounded and equal sums tie.
Case draw_case(std::uint64_t seed, int most_ranks) {
  const CounterRandom random(seed, "greedy");
  Case drawn;
  drawn.num_ranks = 1 + static_cast<int>(random.below(0, static_cast<std::uint64_t>(most_ranks)));
  drawn.num_micro_batches = 1 + static_cast<int>(random.below(1, 5));
  const auto count = 1 + random.below(2, 30 * static_cast<std::uint64_t>(drawn.num_ranks));
  const auto lengths = test::draw_lognormal(seed, count, 475, 1.0);
  drawn.items = test::sorted(items_of(lengths, static_cast<double>(random.below(3, 3))));
  std::int64_t num_tokens = 0;
  for (const BalanceItem& item : drawn.items) num_tokens += item.tokens;
  const int num_bins = drawn.num_ranks * drawn.num_micro_batches;
  drawn.budget = std::max<std::int64_t>(
      4096, std::llround(static_cast<double>(num_tokens) / num_bins * (0.99 + random.uniform(4))));
  drawn.speeds = test::draw_speeds(seed, drawn.num_ranks);
  return drawn;
}

using Place = bool (*)(Bins&);

// Expects that both placements fill the bins equally, or that both find no bin for an item.
void expect_same_bins(const Case& drawn, Place place, Place by_scan) {
  const std::vector<double> equal_speeds(static_cast<std::size_t>(drawn.num_ranks), 1.0);
  Bins bins;
  Bins expected;
  bins.reset(drawn.items, equal_speeds, drawn.num_micro_batches, drawn.budget);
  expected.reset(drawn.items, equal_speeds, drawn.num_micro_batches, drawn.budget);
  ASSERT_EQ(place(bins), by_scan(expected));
  for (std::size_t bin = 0; bin < bins.bins.size(); ++bin) {
    ASSERT_EQ(bins.bins[bin].time, expected.bins[bin].time) << "bin " << bin;
    ASSERT_EQ(bins.bins[bin].tokens, expected.bins[bin].tokens) << "bin " << bin;
  }
}

TEST(Greedy, PlacesItemsOnEqualRanksAsAScanOfAllBinsDoes) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    const Case drawn = draw_case(seed, 20);
    expect_same_bins(drawn, place_longest_first, test::longest_first_by_scan);
    expect_same_bins(drawn, place_least_increase, test::least_increase_by_scan);
    expect_same_bins(drawn, place_best_fit, test::best_fit_by_scan);
    if (HasFatalFailure()) return;
  }
}

// Finds bins for all items, which may be in any order of tokens.
template <typename Tournament>
void expect_earliest_finish(const Case& drawn, std::span<const double> slowness) {
  Bins bins;
  bins.reset(drawn.items, slowness, drawn.num_micro_batches, drawn.budget);
  EarliestFinish<Tournament> search;
  search.reset(bins, 0, bins.bins.size());
  for (ItemNumber item = 0; item < drawn.items.size(); ++item) {
    const std::size_t expected = test::earliest_finish_by_scan(bins, item);
    const std::size_t found = search.find(item);
    ASSERT_EQ(found == kNoBin, expected == kNoBin);
    if (found == kNoBin) continue;
    ASSERT_TRUE(bins.has_capacity(found, item));
    const double time = bins.time_with(expected, item);
    ASSERT_NEAR(bins.time_with(found, item), time, 1e-12 * time);
    bins.append(found, item);
    search.update(found);
  }
}

TEST(EarliestFinish, FindsTheEarliestBinWithFreeSpace) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const CounterRandom random(seed, "tokens");
    Case drawn = draw_case(seed, 20);
    if (seed % 2 == 0) {  // tokens that have nothing to do with costs
      for (std::size_t i = 0; i < drawn.items.size(); ++i) {
        drawn.items[i].tokens = static_cast<std::int64_t>(random.below(i, 1000));
      }
    }
    const std::vector<double> equal_speeds(drawn.speeds.size(), 1.0);
    expect_earliest_finish<EqualSpeedTournament>(drawn, equal_speeds);
    expect_earliest_finish<SpeedTournament>(drawn, equal_speeds);
    std::vector<double> slowness;
    for (const double speed : drawn.speeds) slowness.push_back(1 / speed);
    expect_earliest_finish<SpeedTournament>(drawn, slowness);
    if (HasFatalFailure()) return;
  }
}

// The whole of balance() over scans: its result with this number of micro-batches.
class BalanceByScan {
 public:
  explicit BalanceByScan(const Case& drawn) : drawn_(drawn) {}

  std::optional<double> step_time(std::span<const double> slowness) {
    const std::vector<double> equal_speeds(slowness.size(), 1.0);
    found_ = false;
    if (!std::ranges::equal(slowness, equal_speeds) && step_time(equal_speeds)) {
      best_.change_ranks(slowness);
      best_.group_by_time();
    }
    consider(slowness, test::longest_first_by_scan);
    if (drawn_.num_micro_batches > 1) consider(slowness, test::least_increase_by_scan);
    if (!found_) consider(slowness, test::best_fit_by_scan);
    if (!found_) return std::nullopt;
    ExchangeSearch().improve_with_pairs(best_);
    best_.group_by_time();
    return best_.total();
  }

 private:
  void consider(std::span<const double> slowness, Place place) {
    Bins bins;
    bins.reset(drawn_.items, slowness, drawn_.num_micro_batches, drawn_.budget);
    if (!place(bins)) return;
    bins.group_by_time();
    ExchangeSearch().improve(bins);
    if (!found_ || bins.total() < best_.total()) best_ = std::move(bins);
    found_ = true;
  }

  const Case& drawn_;
  Bins best_;
  bool found_ = false;
};

TEST(Greedy, MakesStepsAsShortAsScansOfAllBinsDo) {
  double sum = 0;
  int count = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Case drawn = draw_case(seed, 12);
    for (BalanceItem& item : drawn.items) item.cost /= 3;  // now sums are rounded
    std::vector<double> slowness;
    for (const double speed : drawn.speeds) slowness.push_back(1 / speed);
    const Placement placement = balance(drawn.items, drawn.num_ranks, drawn.budget, drawn.speeds);
    drawn.num_micro_batches = placement.num_micro_batches;
    const auto expected = BalanceByScan(drawn).step_time(slowness);
    ASSERT_TRUE(expected.has_value()) << "seed " << seed;
    const double ratio =
        test::step_time(drawn.items, placement, drawn.num_ranks, drawn.speeds) / *expected;
    ASSERT_LE(ratio, 1.01) << "seed " << seed;
    sum += ratio;
    ++count;
  }
  EXPECT_LE(sum / count, 1 + 1e-5);
}

// Matches are what the time goes into. A scan looks at 4,096 bins an item.
TEST(EarliestFinish, MakesFewComparisonsPerItemOnThousandsOfRanks) {
  constexpr int kNumRanks = 4096;
  const auto items =
      test::sorted(items_of(test::draw_lognormal(1, 26 * kNumRanks, 475, 1.0), 1.0 / (6 * 4096)));
  const CounterRandom random(1, "slowness");
  std::vector<double> slowness;
  for (std::uint64_t rank = 0; rank < kNumRanks; ++rank) {
    slowness.push_back(0.8 + 0.4 * random.uniform(rank));
  }
  Bins bins;
  bins.reset(items, slowness, 1, test::kNoLimit);
  EarliestFinish<SpeedTournament> search;
  search.reset(bins, 0, bins.bins.size());
  for (ItemNumber item = 0; item < items.size(); ++item) {
    const std::size_t bin = search.find(item);
    bins.append(bin, item);
    search.update(bin);
  }
  EXPECT_LE(search.tournament().num_matches(), 100 * static_cast<std::int64_t>(items.size()));
}

double cpu_seconds_of_a_step(int num_ranks, std::size_t num_items, int num_micro_batches,
                             bool equal_speeds) {
  const auto items = items_of(test::draw_lognormal(1, num_items, 475, 1.0), 1.0 / (6 * 4096));
  std::int64_t num_tokens = 0;
  for (const BalanceItem& item : items) num_tokens += item.tokens;
  const std::int64_t budget =
      std::max<std::int64_t>(4096, num_tokens / (num_ranks * num_micro_batches) * 101 / 100);
  std::vector<double> speeds;
  if (!equal_speeds) speeds = test::draw_speeds(2, num_ranks);
  const std::clock_t begin = std::clock();
  balance(items, num_ranks, budget, speeds);
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// Some twenty times what it takes, for sanitizers and busy machines; scans took 4 to 7 s.
TEST(Balance, TakesAFractionOfASecondOnThousandsOfRanks) {
  EXPECT_LT(cpu_seconds_of_a_step(4096, 26 * 4096, 3, true), 2.0);
  EXPECT_LT(cpu_seconds_of_a_step(4096, 26 * 4096, 3, false), 3.0);
}

TEST(Balance, TakesAFractionOfASecondForHundredsOfMicroBatches) {
  EXPECT_LT(cpu_seconds_of_a_step(8, 50'000, 180, true), 2.0);
  EXPECT_LT(cpu_seconds_of_a_step(8, 50'000, 180, false), 3.0);
}

}  // namespace
}  // namespace packtrain::greedy_test

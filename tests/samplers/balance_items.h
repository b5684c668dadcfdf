// Shared by the tests of balancing: items, drawn speeds, loads and times of a placement.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "framework/core/random.h"
#include "samplers/balance/balance.h"

namespace packtrain::test {

constexpr std::int64_t kNoLimit = std::int64_t{1} << 31;

inline std::vector<BalanceItem> items_of(std::span<const std::int32_t> lengths,
                                         double quadratic = 0) {
  std::vector<BalanceItem> items;
  for (const std::int32_t length : lengths) {
    items.push_back({length + quadratic * length * length, length});
  }
  return items;
}

inline std::vector<BalanceItem> sorted(std::vector<BalanceItem> items) {
  std::ranges::stable_sort(items, std::ranges::greater{}, &BalanceItem::cost);
  return items;
}

// Lognormal lengths of this mean before clipping to 8..4096.
inline std::vector<std::int32_t> draw_lognormal(std::uint64_t seed, std::size_t count, double mean,
                                                double sigma) {
  const CounterRandom random(seed, "lognormal lengths");
  const double mu = std::log(mean) - sigma * sigma / 2;
  std::vector<std::int32_t> lengths;
  for (std::uint64_t i = 0; i < count; ++i) {
    lengths.push_back(
        static_cast<std::int32_t>(std::clamp(std::exp(mu + sigma * random.normal(i)), 8., 4096.)));
  }
  return lengths;
}

// Draws speeds of mean 1, from a quarter of the fastest on. In one of five draws all are equal.
inline std::vector<double> draw_speeds(std::uint64_t seed, int num_ranks) {
  const CounterRandom random(seed, "speeds");
  std::vector<double> speeds(static_cast<std::size_t>(num_ranks), 1.0);
  if (random.below(0, 5) == 0) return speeds;
  for (std::size_t rank = 0; rank < speeds.size(); ++rank) {
    speeds[rank] = 0.25 + 0.75 * random.uniform(rank + 1);
  }
  const double mean = std::accumulate(speeds.begin(), speeds.end(), 0.0) / num_ranks;
  for (double& speed : speeds) speed /= mean;
  return speeds;
}

struct Load {
  double cost = 0;
  std::int64_t tokens = 0;
};

// [micro-batch][rank]
inline std::vector<std::vector<Load>> loads(std::span<const BalanceItem> items,
                                            const Placement& placement, int num_ranks) {
  std::vector<std::vector<Load>> loads(static_cast<std::size_t>(placement.num_micro_batches),
                                       std::vector<Load>(static_cast<std::size_t>(num_ranks)));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto [rank, micro_batch] = placement.slots.at(i);
    Load& load = loads.at(static_cast<std::size_t>(micro_batch)).at(static_cast<std::size_t>(rank));
    load.cost += items[i].cost;
    load.tokens += items[i].tokens;
  }
  return loads;
}

inline double slowest(const std::vector<Load>& micro_batch, std::span<const double> speeds = {}) {
  double slowest = 0;
  for (std::size_t rank = 0; rank < micro_batch.size(); ++rank) {
    slowest = std::max(slowest, micro_batch[rank].cost / (speeds.empty() ? 1.0 : speeds[rank]));
  }
  return slowest;
}

// Returns the time of the step under `placement`.
inline double step_time(std::span<const BalanceItem> items, const Placement& placement,
                        int num_ranks, std::span<const double> speeds = {}) {
  double total = 0;
  for (const auto& micro_batch : loads(items, placement, num_ranks)) {
    total += slowest(micro_batch, speeds);
  }
  return total;
}

// The lower bound of the time of any assignment to ranks of equal speed.
inline double bound(std::span<const BalanceItem> items, int num_ranks) {
  double total = 0;
  double largest = 0;
  for (const BalanceItem& item : items) {
    total += item.cost;
    largest = std::max(largest, item.cost);
  }
  return std::max(total / num_ranks, largest);
}

}  // namespace packtrain::test

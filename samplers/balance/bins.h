// The state that balancing works on: items sorted by cost, bins with their loads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "samplers/balance/balance.h"

namespace packtrain {

// Bin b is what rank b % num_ranks trains in micro-batch b / num_ranks. Items are named by their
// place in descending order of cost, so that a smaller number is never a cheaper item.
struct Bins {
  struct Bin {
    double cost = 0;
    std::int64_t tokens = 0;
    std::vector<std::int32_t> items;  // ascending numbers: descending cost
  };

  Bins(std::span<const BalanceItem> sorted_items, int ranks, int micro_batches, std::int64_t budget)
      : items(sorted_items),
        num_ranks(ranks),
        num_micro_batches(micro_batches),
        max_tokens(budget),
        bins(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(micro_batches)) {}

  bool has_room(std::size_t bin, std::int32_t item) const {
    return bins[bin].tokens + items[static_cast<std::size_t>(item)].tokens <= max_tokens;
  }
  void append(std::size_t bin, std::int32_t item) {
    bins[bin].cost += items[static_cast<std::size_t>(item)].cost;
    bins[bin].tokens += items[static_cast<std::size_t>(item)].tokens;
    bins[bin].items.push_back(item);
  }
  std::span<const Bin> micro_batch(int m) const {
    return std::span(bins).subspan(
        static_cast<std::size_t>(m) * static_cast<std::size_t>(num_ranks),
        static_cast<std::size_t>(num_ranks));
  }
  double slowest(int m) const;  // cost of micro-batch m's slowest rank
  double total() const;         // the objective: the sum of slowest(m)
  // Deals the bins anew, costliest first, so that each micro-batch holds bins of similar cost and
  // the slowest micro-batch comes first. Never raises total().
  void group_by_cost();

  std::span<const BalanceItem> items;
  int num_ranks;
  int num_micro_batches;
  std::int64_t max_tokens;
  std::vector<Bin> bins;
};

}  // namespace packtrain

#include "samplers/balance/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "framework/support/error.h"
#include "samplers/balance/bins.h"
#include "samplers/balance/exchange.h"
#include "samplers/balance/greedy.h"

namespace packtrain {
namespace {

// The better of the greedy starts; nothing when none found room for every item.
std::optional<Bins> start(const Bins& empty) {
  Bins longest_first = empty;
  std::optional<Bins> best;
  if (place_longest_first(longest_first)) {
    longest_first.group_by_cost();
    best = std::move(longest_first);
  }
  if (empty.num_micro_batches > 1) {  // with one, the same as longest first
    Bins least_increase = empty;
    if (place_least_increase(least_increase) && (!best || least_increase.total() < best->total())) {
      best = std::move(least_increase);
    }
  }
  if (!best) {
    Bins best_fit = empty;
    if (place_best_fit(best_fit)) {
      best_fit.group_by_cost();
      best = std::move(best_fit);
    }
  }
  return best;
}

// Micro-batches in descending order of their slowest rank.
std::vector<int> slowest_first(const Bins& bins) {
  std::vector<int> order(static_cast<std::size_t>(bins.num_micro_batches));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](int m) { return bins.slowest(m); });
  return order;
}

Placement to_placement(const Bins& bins, std::span<const std::int32_t> original) {
  Placement placement;
  placement.num_micro_batches = 1;
  placement.slots.resize(original.size());
  std::int32_t position = 0;
  for (const int m : slowest_first(bins)) {
    std::int32_t rank = 0;
    for (const Bins::Bin& bin : bins.micro_batch(m)) {
      for (const std::int32_t item : bin.items) {
        placement.slots[static_cast<std::size_t>(original[static_cast<std::size_t>(item)])] = {
            rank, position};
        placement.num_micro_batches = position + 1;  // those the exchanges emptied come last
      }
      ++rank;
    }
    ++position;
  }
  return placement;
}

}  // namespace

Placement balance(std::span<const BalanceItem> items, int num_ranks, std::int64_t max_tokens) {
  std::vector<std::int32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::int32_t item) {
    return items[static_cast<std::size_t>(item)].cost;
  });
  std::vector<BalanceItem> sorted;
  sorted.reserve(items.size());
  std::int64_t num_tokens = 0;
  for (const std::int32_t item : order) {
    sorted.push_back(items[static_cast<std::size_t>(item)]);
    num_tokens += sorted.back().tokens;
    if (sorted.back().tokens > max_tokens) {
      throw Error(ErrorCategory::kInternal,
                  fmt::format("balance: item {} has {} tokens, more than the budget of {}", item,
                              sorted.back().tokens, max_tokens));
    }
  }
  const std::int64_t capacity = num_ranks * max_tokens;
  int num_micro_batches =
      std::max<int>(1, static_cast<int>((num_tokens + capacity - 1) / capacity));
  // Ends: with as many bins as items, longest first gives each item an empty one.
  for (;; ++num_micro_batches) {
    std::optional<Bins> bins = start(Bins(sorted, num_ranks, num_micro_batches, max_tokens));
    if (!bins) continue;
    improve_by_exchange(*bins);
    return to_placement(*bins, order);
  }
}

}  // namespace packtrain

#include "samplers/balance/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "framework/core/error.h"
#include "samplers/balance/bins.h"
#include "samplers/balance/descending.h"
#include "samplers/balance/exchange.h"
#include "samplers/balance/greedy.h"
#include "samplers/balance/trade.h"

namespace packtrain {
namespace {

std::int64_t div_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// A lower bound: a bin holds `max_tokens`, and at most k items that are longer than max_tokens / (k
// + 1). The second condition is the stronger one when most examples are nearly as long as the
// budget. Starting from the bound avoids failed attempts at balancing.
int fewest_micro_batches(std::span<const BalanceItem> items, int num_ranks,
                         std::int64_t max_tokens) {
  constexpr std::int64_t kMaxAlike = 8;
  std::int64_t num_tokens = 0;
  std::array<std::int64_t, kMaxAlike + 1>
      num_longer{};  // [k] items longer than max_tokens / (k + 1)
  for (const BalanceItem& item : items) {
    num_tokens += item.tokens;
    for (std::int64_t k = kMaxAlike; k > 0 && item.tokens * (k + 1) > max_tokens; --k) {
      ++num_longer[static_cast<std::size_t>(k)];
    }
  }
  std::int64_t num_bins = std::max<std::int64_t>(1, div_up(num_tokens, max_tokens));
  for (std::int64_t k = 1; k <= kMaxAlike; ++k) {
    num_bins = std::max(num_bins, div_up(num_longer[static_cast<std::size_t>(k)], k));
  }
  return static_cast<int>(div_up(num_bins, num_ranks));
}

// One thread's scratch memory and the steps of balancing.
class Balancer {
 public:
  Placement balance(std::span<const BalanceItem> items, int num_ranks, std::int64_t max_tokens,
                    std::span<const double> speeds);
  Placement trade(std::span<const BalanceItem> items, const Placement& placement, int num_ranks,
                  std::int64_t max_tokens, std::span<const double> speeds);

 private:
  void sort(std::span<const BalanceItem> items, std::int64_t max_tokens);
  void set_speeds(int num_ranks, std::span<const double> speeds);
  bool find_best(std::span<const double> slowness, int num_micro_batches, std::int64_t max_tokens);
  Placement to_placement();

  DescendingSort descending_;
  ExchangeSearch exchange_;
  TradeSearch trade_;
  std::span<const SortEntry> order_;
  std::vector<BalanceItem> sorted_;
  std::vector<double> alike_;     // [ranks] all 1
  std::vector<double> slowness_;  // [ranks] 1 / speed
  Bins best_;
  Bins bins_;  // the attempt
};

Placement Balancer::balance(std::span<const BalanceItem> items, int num_ranks,
                            std::int64_t max_tokens, std::span<const double> speeds) {
  sort(items, max_tokens);
  set_speeds(num_ranks, speeds);
  int num_micro_batches = fewest_micro_batches(items, num_ranks, max_tokens);
  // The loop ends: with as many bins as items, longest first on ranks of equal speed gives each
  // item an empty bin.
  while (!find_best(slowness_, num_micro_batches, max_tokens)) ++num_micro_batches;
  return to_placement();
}

Placement Balancer::trade(std::span<const BalanceItem> items, const Placement& placement,
                          int num_ranks, std::int64_t max_tokens, std::span<const double> speeds) {
  sort(items, max_tokens);
  set_speeds(num_ranks, speeds);
  best_.reset(sorted_, slowness_, placement.num_micro_batches, max_tokens);
  for (ItemNumber item = 0; item < order_.size(); ++item) {
    const auto [rank, micro_batch] = placement.slots[order_[item].item];
    best_.append(best_.first_bin(micro_batch) + static_cast<std::size_t>(rank), item);
  }
  trade_.improve(best_);
  exchange_.improve_with_pairs(best_);  // for bins with free space
  return to_placement();
}

void Balancer::sort(std::span<const BalanceItem> items, std::int64_t max_tokens) {
  order_ = descending_(items);
  sorted_.clear();
  for (const SortEntry& entry : order_) {
    sorted_.push_back(items[entry.item]);
    if (sorted_.back().tokens <= max_tokens) continue;
    throw Error(ErrorCategory::kInternal,
                fmt::format("balance: item {} has {} tokens, more than the budget of {}",
                            entry.item, sorted_.back().tokens, max_tokens));
  }
}

void Balancer::set_speeds(int num_ranks, std::span<const double> speeds) {
  alike_.assign(static_cast<std::size_t>(num_ranks), 1.0);
  slowness_ = alike_;
  if (speeds.empty()) return;
  if (speeds.size() != slowness_.size()) {
    throw Error(ErrorCategory::kInternal,
                fmt::format("balance: {} speeds for {} ranks", speeds.size(), num_ranks));
  }
  const bool equal = std::ranges::all_of(speeds, [&](double speed) { return speed == speeds[0]; });
  for (std::size_t rank = 0; rank < speeds.size(); ++rank) {
    if (!(speeds[rank] > 0 && std::isfinite(speeds[rank]))) {
      throw Error(ErrorCategory::kInternal,
                  fmt::format("balance: rank {} has speed {}, wanted a finite number above 0", rank,
                              speeds[rank]));
    }
    if (!equal) slowness_[rank] = 1 / speeds[rank];
  }
}

// Stores the better of the greedy starts in best_ and improves it. Returns false when no start
// found a bin for every item.
bool Balancer::find_best(std::span<const double> slowness, int num_micro_batches,
                         std::int64_t max_tokens) {
  bool found = false;
  const auto consider = [&](bool (*place)(Bins&)) {
    bins_.reset(sorted_, slowness, num_micro_batches, max_tokens);
    if (!place(bins_)) return;
    bins_.group_by_time();
    exchange_.improve(bins_);
    if (!found || bins_.total() < best_.total()) std::swap(best_, bins_);
    found = true;
  };
  if (!std::ranges::equal(slowness, alike_) && find_best(alike_, num_micro_batches, max_tokens)) {
    best_.change_ranks(slowness);  // with speeds the result is never worse than without them
    best_.group_by_time();
    found = true;
  }
  consider(place_longest_first);
  if (num_micro_batches > 1) consider(place_least_increase);  // equal to longest first with one
  if (!found) consider(place_best_fit);
  if (found) exchange_.improve_with_pairs(best_);
  return found;
}

Placement Balancer::to_placement() {
  best_.group_by_time();
  Placement placement;
  placement.num_micro_batches = 1;
  placement.slots.resize(order_.size());
  std::size_t bin = 0;
  for (std::int32_t m = 0; m < best_.num_micro_batches; ++m) {
    for (std::int32_t rank = 0; rank < best_.num_ranks; ++rank, ++bin) {
      for (ItemNumber item = best_.bins[bin].first; item != kNoItem; item = best_.next[item]) {
        placement.slots[order_[item].item] = {rank, m};
        placement.num_micro_batches = m + 1;  // micro-batches that exchanges emptied come last
      }
    }
  }
  return placement;
}

Balancer& balancer_of_thread() {
  thread_local Balancer balancer;
  return balancer;
}

}  // namespace

Placement balance(std::span<const BalanceItem> items, int num_ranks, std::int64_t max_tokens,
                  std::span<const double> speeds) {
  return balancer_of_thread().balance(items, num_ranks, max_tokens, speeds);
}

Placement trade(std::span<const BalanceItem> items, const Placement& placement, int num_ranks,
                std::int64_t max_tokens, std::span<const double> speeds) {
  return balancer_of_thread().trade(items, placement, num_ranks, max_tokens, speeds);
}

}  // namespace packtrain

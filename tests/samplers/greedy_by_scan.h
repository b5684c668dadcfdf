// The greedy starts as their rules say them: a scan of all bins for each item.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "samplers/balance/bins.h"
#include "samplers/balance/tournament.h"

namespace packtrain::test {

inline std::size_t earliest_finish_by_scan(const Bins& bins, ItemNumber item) {
  std::size_t best = kNoBin;
  for (std::size_t bin = 0; bin < bins.bins.size(); ++bin) {
    if (!bins.has_capacity(bin, item)) continue;
    if (best == kNoBin || bins.time_with(bin, item) < bins.time_with(best, item)) best = bin;
  }
  return best;
}

inline bool longest_first_by_scan(Bins& bins) {
  for (ItemNumber item = 0; item < bins.items.size(); ++item) {
    const std::size_t bin = earliest_finish_by_scan(bins, item);
    if (bin == kNoBin) return false;
    bins.append(bin, item);
  }
  return true;
}

inline bool least_increase_by_scan(Bins& bins) {
  std::vector<double> slowest(static_cast<std::size_t>(bins.num_micro_batches), 0.0);
  const auto num_ranks = static_cast<std::size_t>(bins.num_ranks);
  for (ItemNumber item = 0; item < bins.items.size(); ++item) {
    std::size_t best = kNoBin;
    std::pair<double, double> best_key;  // increase, time
    for (std::size_t bin = 0; bin < bins.bins.size(); ++bin) {
      if (!bins.has_capacity(bin, item)) continue;
      const double time = bins.time_with(bin, item);
      const std::pair key(std::max(0.0, time - slowest[bin / num_ranks]), time);
      if (best != kNoBin && !(key < best_key)) continue;
      best = bin;
      best_key = key;
    }
    if (best == kNoBin) return false;
    bins.append(best, item);
    double& changed = slowest[best / num_ranks];
    changed = std::max(changed, bins.bins[best].time);
  }
  return true;
}

inline bool best_fit_by_scan(Bins& bins) {
  std::vector<ItemNumber> by_tokens(bins.items.size());
  std::iota(by_tokens.begin(), by_tokens.end(), 0U);
  std::ranges::stable_sort(by_tokens, std::ranges::greater{},
                           [&](ItemNumber item) { return bins.items[item].tokens; });
  for (const ItemNumber item : by_tokens) {
    std::size_t best = kNoBin;
    for (std::size_t bin = 0; bin < bins.bins.size(); ++bin) {
      if (!bins.has_capacity(bin, item)) continue;
      if (best == kNoBin || bins.bins[bin].tokens > bins.bins[best].tokens) best = bin;
    }
    if (best == kNoBin) return false;
    bins.insert(best, item);
  }
  return true;
}

}  // namespace packtrain::test

#include "samplers/balance/greedy.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

namespace packtrain {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

}  // namespace

bool place_longest_first(Bins& bins) {
  using Entry = std::pair<double, std::size_t>;  // cost, bin
  std::vector<Entry> entries;
  for (std::size_t bin = 0; bin < bins.bins.size(); ++bin) entries.emplace_back(0.0, bin);
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> lightest(std::greater<>{},
                                                                          std::move(entries));
  std::vector<Entry> full;
  for (std::int32_t item = 0; item < std::ssize(bins.items); ++item) {
    full.clear();
    while (!lightest.empty() && !bins.has_room(lightest.top().second, item)) {
      full.push_back(lightest.top());
      lightest.pop();
    }
    if (lightest.empty()) return false;
    const std::size_t bin = lightest.top().second;
    lightest.pop();
    bins.append(bin, item);
    lightest.emplace(bins.bins[bin].cost, bin);
    for (const Entry& entry : full) lightest.push(entry);
  }
  return true;
}

bool place_least_increase(Bins& bins) {
  std::vector<double> slowest(static_cast<std::size_t>(bins.num_micro_batches), 0.0);
  const auto num_ranks = static_cast<std::size_t>(bins.num_ranks);
  for (std::int32_t item = 0; item < std::ssize(bins.items); ++item) {
    const double cost = bins.items[static_cast<std::size_t>(item)].cost;
    std::size_t best = kNone;
    std::pair<double, double> best_key;  // increase, load
    for (std::size_t bin = 0; bin < bins.bins.size(); ++bin) {
      if (!bins.has_room(bin, item)) continue;
      const double load = bins.bins[bin].cost;
      const std::pair key(std::max(0.0, load + cost - slowest[bin / num_ranks]), load);
      if (best == kNone || key < best_key) {
        best = bin;
        best_key = key;
      }
    }
    if (best == kNone) return false;
    bins.append(best, item);
    slowest[best / num_ranks] = std::max(slowest[best / num_ranks], bins.bins[best].cost);
  }
  return true;
}

bool place_best_fit(Bins& bins) {
  std::vector<std::int32_t> by_tokens(bins.items.size());
  std::iota(by_tokens.begin(), by_tokens.end(), 0);
  std::ranges::stable_sort(by_tokens, std::ranges::greater{}, [&](std::int32_t item) {
    return bins.items[static_cast<std::size_t>(item)].tokens;
  });
  for (const std::int32_t item : by_tokens) {
    std::size_t best = kNone;
    for (std::size_t bin = 0; bin < bins.bins.size(); ++bin) {
      if (!bins.has_room(bin, item)) continue;
      if (best == kNone || bins.bins[bin].tokens > bins.bins[best].tokens) best = bin;
    }
    if (best == kNone) return false;
    bins.append(best, item);
  }
  for (Bins::Bin& bin : bins.bins) std::ranges::sort(bin.items);
  return true;
}

}  // namespace packtrain

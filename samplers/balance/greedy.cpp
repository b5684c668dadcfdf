#include "samplers/balance/greedy.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "samplers/balance/earliest_finish.h"

namespace packtrain {
namespace {

template <typename Tournament>
bool longest_first(Bins& bins) {
  thread_local EarliestFinish<Tournament> search;
  search.reset(bins, 0, bins.bins.size());
  for (ItemNumber item = 0; item < bins.items.size(); ++item) {
    const std::size_t bin = search.find(item);
    if (bin == kNoBin) return false;
    bins.append(bin, item);
    search.update(bin);
  }
  return true;
}

// In each micro-batch only the bin that finishes first can win: it also lengthens the micro-batch
// least. Empty micro-batches are equal, so the search looks at one of them.
template <typename Tournament>
class LeastIncrease {
 public:
  bool place_all(Bins& bins) {
    bins_ = &bins;
    const auto num_micro_batches = static_cast<std::size_t>(bins.num_micro_batches);
    if (searches_.size() < num_micro_batches) searches_.resize(num_micro_batches);
    slowest_.assign(num_micro_batches, 0.0);
    open_.clear();
    closed_.clear();
    num_begun_ = 0;
    begin_another();
    for (ItemNumber item = 0; item < bins.items.size(); ++item) {
      if (!place(item)) return false;
    }
    return true;
  }

 private:
  void begin_another() {
    if (num_begun_ == slowest_.size()) return;
    searches_[num_begun_].reset(*bins_, bins_->first_bin(static_cast<int>(num_begun_)),
                                static_cast<std::size_t>(bins_->num_ranks));
    open_.push_back(num_begun_++);
  }

  bool place(ItemNumber item) {
    const std::int64_t most = bins_->max_tokens - bins_->items[item].tokens;
    while (closed_.any(most)) open_.push_back(closed_.take());
    std::tuple<double, double, std::size_t> best{0, 0, kNoBin};  // increase, time, bin
    std::size_t changed = 0;
    for (std::size_t i = 0; i < open_.size();) {
      const std::size_t m = open_[i];
      const std::size_t bin = searches_[m].find(item);
      if (bin == kNoBin) {
        closed_.add(m, searches_[m].min_tokens());
        open_[i] = open_.back();
        open_.pop_back();
        continue;
      }
      const double time = bins_->time_with(bin, item);
      const std::tuple key(std::max(0.0, time - slowest_[m]), time, bin);
      if (std::get<2>(best) == kNoBin || key < best) {
        best = key;
        changed = m;
      }
      ++i;
    }
    const std::size_t bin = std::get<2>(best);
    if (bin == kNoBin) return false;
    bins_->append(bin, item);
    searches_[changed].update(bin);
    slowest_[changed] = std::max(slowest_[changed], bins_->bins[bin].time);
    if (changed + 1 == num_begun_) begin_another();
    return true;
  }

  Bins* bins_ = nullptr;
  std::vector<EarliestFinish<Tournament>> searches_;  // [micro-batches]
  std::vector<double> slowest_;                       // [micro-batches]
  std::vector<std::size_t> open_;                     // micro-batches with space, and one empty
  Closed closed_;                                     // the others
  std::size_t num_begun_ = 0;
};

}  // namespace

bool place_longest_first(Bins& bins) {
  return bins.ranks_are_equal ? longest_first<EqualSpeedTournament>(bins)
                              : longest_first<SpeedTournament>(bins);
}

bool place_least_increase(Bins& bins) {
  thread_local LeastIncrease<EqualSpeedTournament> equal_speeds;
  thread_local LeastIncrease<SpeedTournament> uneven;
  return bins.ranks_are_equal ? equal_speeds.place_all(bins) : uneven.place_all(bins);
}

bool place_best_fit(Bins& bins) {
  thread_local std::vector<ItemNumber> by_tokens;
  by_tokens.resize(bins.items.size());
  std::iota(by_tokens.begin(), by_tokens.end(), 0U);
  std::ranges::stable_sort(by_tokens, std::ranges::greater{},
                           [&](ItemNumber item) { return bins.items[item].tokens; });
  std::set<std::pair<std::int64_t, std::size_t>> opened;  // free space, bin
  for (const ItemNumber item : by_tokens) {
    auto fullest = opened.lower_bound({bins.items[item].tokens, 0});
    if (fullest == opened.end()) {  // none has space: open the next bin
      if (opened.size() == bins.bins.size()) return false;
      fullest = opened.emplace(bins.max_tokens, opened.size()).first;
    }
    auto node = opened.extract(fullest);
    bins.insert(node.value().second, item);
    node.value().first -= bins.items[item].tokens;
    opened.insert(std::move(node));
  }
  return true;
}

}  // namespace packtrain

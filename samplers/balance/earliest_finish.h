// A tournament of bins in which some bins have too little space for an item.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "samplers/balance/bins.h"
#include "samplers/balance/closed.h"
#include "samplers/balance/tournament.h"

namespace packtrain {

// Finds the bin that finishes first with an item, among the bins that have space for it. A winner
// without space is closed until a shorter item comes. Usually longer items cost more, so that items
// also come in descending order of tokens. Then a bin is closed at most once for each item that it
// gets. An item costs a few matches for each level of the tree, also when the bins are full.
template <typename Tournament>
class EarliestFinish {
 public:
  // Starts with the empty bins [first, first + count). `bins` must outlive the search. Memory is
  // reused.
  void reset(const Bins& bins, std::size_t first, std::size_t count) {
    bins_ = &bins;
    first_ = first;
    closed_.clear();
    tournament_.reset(std::span(bins.bins).subspan(first, count));
  }

  // Returns kNoBin when no bin has space. Items come in descending order of cost.
  std::size_t find(ItemNumber item) {
    const BalanceItem& wanted = bins_->items[item];
    // The most tokens that a bin with space for the item holds.
    const std::int64_t most = bins_->max_tokens - wanted.tokens;
    while (closed_.any(most)) {
      const std::size_t bin = closed_.take();
      tournament_.set(bin, bins_->bins[first_ + bin].time);
    }
    for (;;) {
      const std::size_t found = tournament_.first(wanted.cost);
      if (found == kNoBin) return kNoBin;
      const Bins::Bin& bin = bins_->bins[first_ + found];
      if (bin.tokens <= most) return first_ + found;
      tournament_.set(found, kClosed);
      closed_.add(found, bin.tokens);
    }
  }

  // Call it after `bin`, the result of find(), received the item.
  void update(std::size_t bin) { tournament_.set(bin - first_, bins_->bins[bin].time); }

  // The tokens of the emptiest bin. Valid after find() returned kNoBin.
  std::int64_t min_tokens() const { return closed_.min_tokens(); }
  const Tournament& tournament() const { return tournament_; }

 private:
  const Bins* bins_ = nullptr;
  std::size_t first_ = 0;
  Tournament tournament_;
  Closed closed_;
};

}  // namespace packtrain

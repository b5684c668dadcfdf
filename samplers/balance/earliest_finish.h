// A tournament of bins of which some are too full for an item.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "samplers/balance/bins.h"
#include "samplers/balance/closed.h"
#include "samplers/balance/tournament.h"

namespace packtrain {

// Finds among some bins the one that is first done with an item and has room for it. A bin that
// wins without room is closed until an item comes that is short enough. Where items come in
// descending order of tokens, too, as those of which the longer is the costlier do, a bin is closed
// at most once for each item it gets: a few matches a level of the tree and item, however full the
// bins are.
template <typename Tournament>
class EarliestFinish {
 public:
  // Bins [first, first + count), empty. `bins` must outlive the search. Memory is reused.
  void reset(const Bins& bins, std::size_t first, std::size_t count) {
    bins_ = &bins;
    first_ = first;
    closed_.clear();
    tournament_.reset(std::span(bins.bins).subspan(first, count));
  }

  // kNoBin when none has room. Items come in descending order of cost.
  std::size_t find(ItemNumber item) {
    const BalanceItem& wanted = bins_->items[item];
    const std::int64_t most = bins_->max_tokens - wanted.tokens;  // in a bin with room
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

  // `bin`, the one found last, has got the item.
  void update(std::size_t bin) { tournament_.set(bin - first_, bins_->bins[bin].time); }

  // Of the emptiest bin, when none has room.
  std::int64_t min_tokens() const { return closed_.min_tokens(); }
  const Tournament& tournament() const { return tournament_; }

 private:
  const Bins* bins_ = nullptr;
  std::size_t first_ = 0;
  Tournament tournament_;
  Closed closed_;
};

}  // namespace packtrain

// Local search: the slowest rank of a micro-batch transfers cost to lighter ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "samplers/balance/bins.h"
#include "samplers/balance/bundles.h"
#include "samplers/balance/time_order.h"

namespace packtrain {

// Swaps items between the slowest bin of a micro-batch and one of the lightest bins. That bin is in
// the same micro-batch, or in another one when this shortens the step. The search ends when no swap
// helps or the step is within 0.1 % of bins.bound(). It never raises bins.total() and never exceeds
// the budget. The number of exchanges is at most a small multiple of the number of bins.
class ExchangeSearch {
 public:
  // Moves at most one item each way. This is cheap, and enough where bins hold many items.
  void improve(Bins& bins) { search(bins, 1); }
  // Then also moves up to two items each way, which bins of few items need.
  void improve_with_pairs(Bins& bins) { search(bins, 2); }

 private:
  // `give` goes from the slow bin to the partner, `take` comes back.
  struct Exchange {
    std::size_t partner = 0;
    Bundle give;
    Bundle take;
    double gain = 0;  // of the step
  };

  // The bundles of a partner, cached until the partner changes, because light bins are tried often.
  struct Takes {
    std::size_t bin = kNoPartner;
    std::vector<Bundle> bundles;  // descending cost, the last is empty
  };
  static constexpr std::size_t kNoPartner = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t kMaxTakes = 2048;  // entries of a few kilobytes each

  void search(Bins& bins, int most_items);
  bool sweep(int most_items);
  bool level(int m);
  bool shorten(int m);
  template <typename Gain>
  void try_partner(std::size_t slow, std::size_t partner, double wanted, const Gain& gain);
  bool apply(int m, std::size_t slow);

  double total() const;
  const TimeOrder& by_time(int m) const { return by_time_[static_cast<std::size_t>(m)]; }
  TimeOrder& by_time(int m) { return by_time_[static_cast<std::size_t>(m)]; }
  std::span<const std::uint32_t> lightest_bins(int m) const;
  void list_bundles(std::size_t bin, std::vector<Bundle>& bundles) const;
  const std::vector<Bundle>& takes_of(std::size_t bin);
  void forget_takes(std::size_t bin);
  // True when both bins stay within the budget after `tokens` move from the slow bin to `partner`.
  bool fits(std::size_t slow, std::size_t partner, std::int64_t tokens) const;

  Bins* bins_ = nullptr;
  int most_items_ = 1;  // of a bundle
  int exchanges_left_ = 0;
  double close_ = 0;                                          // the search ends at this total
  std::vector<TimeOrder> by_time_;                            // [micro-batches]
  std::vector<Bundle> gives_;                                 // descending cost
  std::vector<Takes> takes_ = std::vector<Takes>(kMaxTakes);  // by bin % kMaxTakes
  Exchange best_;
};

}  // namespace packtrain

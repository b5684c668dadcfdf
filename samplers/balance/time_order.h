// The bins of a micro-batch in ascending order of time, updated as single bins change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "samplers/balance/bins.h"

namespace packtrain {

// A sorted array. One change moves a few kilobytes at thousands of ranks, which is faster than a
// search for the new position. Ties go to the lower bin.
class TimeOrder {
 public:
  // `bins` must outlive its use. Memory is reused.
  void reset(const Bins& bins, int m) {
    bins_ = &bins;
    order_.resize(static_cast<std::size_t>(bins.num_ranks));
    std::iota(order_.begin(), order_.end(), static_cast<std::uint32_t>(bins.first_bin(m)));
    std::sort(order_.begin(), order_.end(), Lighter{bins_});
  }

  std::span<const std::uint32_t> bins() const { return order_; }
  std::size_t slowest() const { return order_.back(); }

  // Call it when only the time of `bin` has changed, which is one of the lightest.
  void changed(std::size_t bin) { restore(place_of(bin), order_.end()); }
  // Call it when only the time of the slowest bin has changed.
  void slowest_changed() { restore(order_.end() - 1, order_.end()); }
  void slowest_and_another_changed(std::size_t bin) {
    restore(place_of(bin), order_.end() - 1);
    slowest_changed();
  }

 private:
  using Iterator = std::vector<std::uint32_t>::iterator;

  struct Lighter {
    const Bins* bins;
    bool operator()(std::uint32_t a, std::uint32_t b) const {
      const double time_a = bins->bins[a].time;
      const double time_b = bins->bins[b].time;
      return time_a != time_b ? time_a < time_b : a < b;
    }
  };

  Iterator place_of(std::size_t bin) {  // searches from the begin, because light bins change
    return std::find(order_.begin(), order_.end(), static_cast<std::uint32_t>(bin));
  }

  // Moves the entry at `place` to its sorted position before `end`. All other entries are sorted.
  void restore(Iterator place, Iterator end) {
    const Iterator above = std::lower_bound(place + 1, end, *place, Lighter{bins_});
    if (above != place + 1) {
      std::rotate(place, place + 1, above);
      return;
    }
    const Iterator below = std::lower_bound(order_.begin(), place, *place, Lighter{bins_});
    std::rotate(below, place, place + 1);
  }

  const Bins* bins_ = nullptr;
  std::vector<std::uint32_t> order_;
};

}  // namespace packtrain

// The state of balancing: items sorted by cost, and bins with their loads.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "samplers/balance/balance.h"

namespace packtrain {

// The position of an item in descending order of cost. A smaller number is never a cheaper item.
using ItemNumber = std::uint32_t;
constexpr ItemNumber kNoItem = std::numeric_limits<ItemNumber>::max();

// Bin b is what rank b % num_ranks trains in micro-batch b / num_ranks. The items of a bin form a
// linked list through `next`: bins own no memory and an item moves without copying.
struct Bins {
  struct Bin {
    double time = 0;  // cost of its items * slowness
    std::int64_t tokens = 0;
    double slowness = 1;         // 1 / speed of its rank
    ItemNumber first = kNoItem;  // ascending numbers: descending cost
    ItemNumber last = kNoItem;
  };

  // Makes all bins empty. `slowness` has [num_ranks] values. It and the items must outlive their
  // use. Memory is reused.
  void reset(std::span<const BalanceItem> sorted_items, std::span<const double> slowness,
             int micro_batches, std::int64_t budget);
  // Keeps the items of each bin and replaces the ranks.
  void change_ranks(std::span<const double> slowness);

  bool has_capacity(std::size_t bin, ItemNumber item) const {
    return bins[bin].tokens + items[item].tokens <= max_tokens;
  }
  double time_with(std::size_t bin, ItemNumber item) const {
    return bins[bin].time + items[item].cost * bins[bin].slowness;
  }
  void append(std::size_t bin, ItemNumber item) {  // `item` must be above all numbers in the bin
    Bin& to = bins[bin];
    to.time = time_with(bin, item);
    to.tokens += items[item].tokens;
    (to.last == kNoItem ? to.first : next[to.last]) = item;
    to.last = item;
    next[item] = kNoItem;
  }
  void insert(std::size_t bin, ItemNumber item);
  void remove(std::size_t bin, ItemNumber item);

  std::size_t first_bin(int m) const {
    return static_cast<std::size_t>(m) * static_cast<std::size_t>(num_ranks);
  }
  std::span<const Bin> micro_batch(int m) const {
    return std::span(bins).subspan(first_bin(m), static_cast<std::size_t>(num_ranks));
  }
  double slowest(int m) const;  // time of micro-batch m's slowest rank
  double total() const;         // the objective: the sum of slowest(m)
  double bound() const;         // no assignment has a smaller total
  // Rearranges whole bins so that each micro-batch holds bins of similar time, the slowest
  // micro-batch first. Never raises total().
  void group_by_time();

  std::span<const BalanceItem> items;
  int num_ranks = 0;
  int num_micro_batches = 0;
  std::int64_t max_tokens = 0;
  bool ranks_are_equal = true;
  std::vector<Bin> bins;
  std::vector<ItemNumber> next;  // [items] the following item of the same bin, or kNoItem

 private:
  void set_slowness(std::span<const double> slowness);
};

}  // namespace packtrain

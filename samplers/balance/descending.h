// Sorting for balancing: the items of a step in descending order of cost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "samplers/balance/balance.h"

namespace packtrain {

// An item's cost as an integer. Integers of numbers >= 0 have the order of the numbers.
struct SortEntry {
  std::uint64_t cost_bits = 0;
  std::uint32_t item = 0;  // its index
};

// Distributes items into equal bins by the leading bits of the cost, then sorts each bin. O(n) for
// costs that differ, O(n log n) at worst. Equal costs keep their order. Memory is reused from call
// to call.
class DescendingSort {
 public:
  // The result is valid until the next call.
  std::span<const SortEntry> operator()(std::span<const BalanceItem> items);

 private:
  std::vector<SortEntry> unsorted_;
  std::vector<SortEntry> sorted_;
  std::vector<std::uint32_t> ends_;  // of the bins
};

}  // namespace packtrain

#include "samplers/balance/descending.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace packtrain {
namespace {

bool comes_before(const SortEntry& a, const SortEntry& b) {
  return a.cost_bits != b.cost_bits ? a.cost_bits > b.cost_bits : a.item < b.item;
}

}  // namespace

std::span<const SortEntry> DescendingSort::operator()(std::span<const BalanceItem> items) {
  unsorted_.clear();
  std::uint64_t most = 0;
  std::uint64_t least = ~std::uint64_t{0};
  for (const BalanceItem& item : items) {
    const auto bits = std::bit_cast<std::uint64_t>(item.cost + 0.0);  // no negative zero
    unsorted_.push_back({bits, static_cast<std::uint32_t>(unsorted_.size())});
    most = std::max(most, bits);
    least = std::min(least, bits);
  }
  sorted_.resize(items.size());
  if (items.empty()) return sorted_;

  // About as many bins as items. The leading bits of a floating-point number approximate its
  // logarithm, so a few very large costs do not put all others into one bin.
  const int shift = std::max<int>(0, std::bit_width(most - least) - std::bit_width(items.size()));
  const auto bin_of = [&](const SortEntry& entry) { return (most - entry.cost_bits) >> shift; };
  ends_.assign(((most - least) >> shift) + 1, 0);
  for (const SortEntry& entry : unsorted_) ++ends_[bin_of(entry)];
  std::exclusive_scan(ends_.begin(), ends_.end(), ends_.begin(), 0U);
  for (const SortEntry& entry : unsorted_) sorted_[ends_[bin_of(entry)]++] = entry;

  std::uint32_t begin = 0;
  for (const std::uint32_t end : ends_) {
    if (end - begin > 1) std::sort(&sorted_[begin], sorted_.data() + end, comes_before);
    begin = end;
  }
  return sorted_;
}

}  // namespace packtrain

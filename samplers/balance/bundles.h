// Bundles: one item, or two items, that a search moves together from one bin to another.
#pragma once

#include <cstdint>
#include <vector>

#include "samplers/balance/bins.h"

namespace packtrain {

struct Bundle {
  double cost = 0;
  std::int64_t tokens = 0;
  ItemNumber first = kNoItem;
  ItemNumber second = kNoItem;
};

// Replaces `bundles` by the items of `bin`, in descending order of cost.
inline void list_items(const Bins& bins, std::size_t bin, std::vector<Bundle>& bundles) {
  bundles.clear();
  for (ItemNumber item = bins.bins[bin].first; item != kNoItem; item = bins.next[item]) {
    bundles.push_back({bins.items[item].cost, bins.items[item].tokens, item, kNoItem});
  }
}

// Adds every pair of the first `num_items` of `bundles`, which are items.
inline void add_pairs(std::vector<Bundle>& bundles, std::size_t num_items) {
  for (std::size_t i = 0; i < num_items; ++i) {
    for (std::size_t j = i + 1; j < num_items; ++j) {
      bundles.push_back({bundles[i].cost + bundles[j].cost, bundles[i].tokens + bundles[j].tokens,
                         bundles[i].first, bundles[j].first});
    }
  }
}

inline void move(Bins& bins, const Bundle& bundle, std::size_t from, std::size_t to) {
  for (const ItemNumber item : {bundle.first, bundle.second}) {
    if (item == kNoItem) continue;
    bins.remove(from, item);
    bins.insert(to, item);
  }
}

}  // namespace packtrain

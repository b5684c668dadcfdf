#include "samplers/balance/bins.h"

#include <algorithm>

namespace packtrain {

void Bins::reset(std::span<const BalanceItem> sorted_items, std::span<const double> slowness,
                 int micro_batches, std::int64_t budget) {
  items = sorted_items;
  num_ranks = static_cast<int>(slowness.size());
  num_micro_batches = micro_batches;
  max_tokens = budget;
  bins.assign(slowness.size() * static_cast<std::size_t>(micro_batches), Bin{});
  next.resize(items.size());
  set_slowness(slowness);
}

void Bins::set_slowness(std::span<const double> slowness) {
  ranks_are_equal =
      std::ranges::all_of(slowness, [&](double value) { return value == slowness[0]; });
  for (std::size_t bin = 0; bin < bins.size(); ++bin) {
    bins[bin].slowness = slowness[bin % slowness.size()];
  }
}

void Bins::change_ranks(std::span<const double> slowness) {
  set_slowness(slowness);
  for (Bin& bin : bins) {
    bin.time = 0;
    for (ItemNumber item = bin.first; item != kNoItem; item = next[item]) {
      bin.time += items[item].cost * bin.slowness;
    }
  }
}

void Bins::insert(std::size_t bin, ItemNumber item) {
  Bin& to = bins[bin];
  if (to.last == kNoItem || to.last < item) return append(bin, item);
  ItemNumber* link = &to.first;
  while (*link < item) link = &next[*link];
  next[item] = *link;
  *link = item;
  to.time = time_with(bin, item);
  to.tokens += items[item].tokens;
}

void Bins::remove(std::size_t bin, ItemNumber item) {
  Bin& from = bins[bin];
  ItemNumber before = kNoItem;
  ItemNumber* link = &from.first;
  for (; *link != item; link = &next[before]) before = *link;
  *link = next[item];
  if (from.last == item) from.last = before;
  // An empty bin has a time of exactly 0, without a rounding error.
  from.time = from.first == kNoItem ? 0.0 : from.time - items[item].cost * from.slowness;
  from.tokens -= items[item].tokens;
}

double Bins::slowest(int m) const {
  double slowest = 0;
  for (const Bin& bin : micro_batch(m)) slowest = std::max(slowest, bin.time);
  return slowest;
}

double Bins::total() const {
  double total = 0;
  for (int m = 0; m < num_micro_batches; ++m) total += slowest(m);
  return total;
}

double Bins::bound() const {
  if (items.empty()) return 0;
  double cost = 0;
  for (const BalanceItem& item : items) cost += item.cost;
  double speeds = 0;
  double fastest = 0;
  for (const Bin& bin : micro_batch(0)) {
    speeds += 1 / bin.slowness;
    fastest = std::max(fastest, 1 / bin.slowness);
  }
  return std::max(cost / speeds, items.front().cost / fastest);
}

void Bins::group_by_time() {
  if (num_micro_batches == 1) return;
  const auto slower = [](const Bin& a, const Bin& b) { return a.time > b.time; };
  if (ranks_are_equal) {  // any rank may take any bin
    std::ranges::stable_sort(bins, slower);
    return;
  }
  // Each rank keeps its bins, sorted by time. No arrangement is better: the k slowest bins of a
  // rank are in k micro-batches. In any arrangement at least k micro-batches last as long as the
  // k-th slowest bin of every rank. Here the k-th micro-batch lasts no longer than that.
  std::vector<Bin> own(static_cast<std::size_t>(num_micro_batches));
  const auto stride = static_cast<std::size_t>(num_ranks);
  for (std::size_t rank = 0; rank < stride; ++rank) {
    for (std::size_t m = 0; m < own.size(); ++m) own[m] = bins[m * stride + rank];
    std::ranges::stable_sort(own, slower);
    for (std::size_t m = 0; m < own.size(); ++m) bins[m * stride + rank] = own[m];
  }
}

}  // namespace packtrain

#include "samplers/balance/exchange.h"

#include <algorithm>

#include "samplers/balance/search_limits.h"

namespace packtrain {
namespace {

constexpr double kGoodShare = 0.5;  // of the greatest possible gain; then no other partner is tried
constexpr std::size_t kPartners = 16;  // lightest bins of a micro-batch that are tried
constexpr int kMaxOthers = 16;         // neighbouring micro-batches that are tried
constexpr int kExchangesPerBin = 8;    // bound on the work

}  // namespace

void ExchangeSearch::search(Bins& bins, int most_items) {
  close_ = bins.bound() * (1 + kClose);
  if (bins.total() <= close_) return;
  bins_ = &bins;
  exchanges_left_ = kExchangesPerBin * static_cast<int>(bins.bins.size());
  const auto num_micro_batches = static_cast<std::size_t>(bins.num_micro_batches);
  if (by_time_.size() < num_micro_batches) by_time_.resize(num_micro_batches);
  for (int m = 0; m < bins.num_micro_batches; ++m) by_time(m).reset(bins, m);
  while (sweep(1) || (most_items > 1 && sweep(most_items))) {
  }
}

bool ExchangeSearch::sweep(int most_items) {
  most_items_ = most_items;
  for (Takes& takes : takes_) takes.bin = kNoPartner;
  bool changed = false;
  for (int m = 0; m < bins_->num_micro_batches; ++m) {
    while (exchanges_left_ > 0 && total() > close_ && (level(m) || shorten(m))) {
      changed = true;
      --exchanges_left_;
    }
  }
  return changed;
}

double ExchangeSearch::total() const {
  double total = 0;
  for (int m = 0; m < bins_->num_micro_batches; ++m)
    total += bins_->bins[by_time(m).slowest()].time;
  return total;
}

std::span<const std::uint32_t> ExchangeSearch::lightest_bins(int m) const {
  const std::span<const std::uint32_t> bins = by_time(m).bins();
  return bins.first(std::min(kPartners, bins.size()));
}

bool ExchangeSearch::fits(std::size_t slow, std::size_t partner, std::int64_t tokens) const {
  const auto& bins = bins_->bins;
  return bins[slow].tokens - tokens <= bins_->max_tokens &&
         bins[partner].tokens + tokens <= bins_->max_tokens;
}

// Makes one exchange inside micro-batch m that lowers the greater of the two times.
bool ExchangeSearch::level(int m) {
  const std::size_t slow = by_time(m).slowest();
  const Bins::Bin& from = bins_->bins[slow];
  list_bundles(slow, gives_);
  best_ = {};
  for (const std::uint32_t partner : lightest_bins(m)) {
    const Bins::Bin& to = bins_->bins[partner];
    const double gap = from.time - to.time;
    const double wanted = gap / (from.slowness + to.slowness);  // equalizes both times
    if (partner == slow || best_.gain >= kGoodShare * wanted * from.slowness) continue;
    try_partner(slow, partner, wanted, [&](double handed) {
      return std::min(handed * from.slowness, gap - handed * to.slowness);
    });
  }
  return apply(m, slow);
}

// Makes one exchange between micro-batch m's slowest bin and another micro-batch that shortens the
// step: m gains more than the other loses.
bool ExchangeSearch::shorten(int m) {
  const std::size_t slow = by_time(m).slowest();
  const Bins::Bin& from = bins_->bins[slow];
  const std::span<const std::uint32_t> all = by_time(m).bins();
  const double second = all.size() > 1 ? bins_->bins[all[all.size() - 2]].time : 0.0;
  const double most = from.time - second;  // the greatest gain of m
  if (most <= kSmallestGain * from.time) return false;
  list_bundles(slow, gives_);
  best_ = {};
  const int last = bins_->num_micro_batches - 1;
  const int begin = std::clamp(m - kMaxOthers / 2, 0, std::max(0, last - kMaxOthers));
  for (int other = begin; other <= std::min(last, begin + kMaxOthers); ++other) {
    if (other == m) continue;
    const double slowest = bins_->bins[by_time(other).slowest()].time;
    for (const std::uint32_t partner : lightest_bins(other)) {
      const Bins::Bin& to = bins_->bins[partner];
      const double slack = slowest - to.time;  // time that does not lengthen the other
      if (best_.gain >= kGoodShare * std::min(most, slack)) break;
      const double wanted = (most / from.slowness + slack / to.slowness) / 2;
      try_partner(slow, partner, wanted, [&](double handed) {
        return std::min(handed * from.slowness, most) - std::max(0.0, handed * to.slowness - slack);
      });
    }
  }
  return apply(m, slow);
}

// Lists the items of `bin`, and its pairs when requested, in descending order of cost.
void ExchangeSearch::list_bundles(std::size_t bin, std::vector<Bundle>& bundles) const {
  list_items(*bins_, bin, bundles);
  if (most_items_ < 2 || bundles.size() > kMaxPaired) return;
  add_pairs(bundles, bundles.size());
  std::ranges::sort(bundles, [](const Bundle& a, const Bundle& b) {
    if (a.cost != b.cost) return a.cost > b.cost;
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  });
}

const std::vector<Bundle>& ExchangeSearch::takes_of(std::size_t bin) {
  Takes& takes = takes_[bin % takes_.size()];
  if (takes.bin == bin) return takes.bundles;
  takes.bin = bin;
  list_bundles(bin, takes.bundles);
  takes.bundles.push_back({});
  return takes.bundles;
}

void ExchangeSearch::forget_takes(std::size_t bin) {
  Takes& takes = takes_[bin % takes_.size()];
  if (takes.bin == bin) takes.bin = kNoPartner;
}

// Tries each bundle of the slow bin with two bundles of the partner (or nothing). Their swaps
// transfer the cost just above and just below `wanted`. One pass suffices, because both lists
// descend in cost.
template <typename Gain>
void ExchangeSearch::try_partner(std::size_t slow, std::size_t partner, double wanted,
                                 const Gain& gain) {
  const std::vector<Bundle>& takes = takes_of(partner);
  const auto offer = [&](const Bundle& give, const Bundle& take) {
    const double gained = gain(give.cost - take.cost);
    if (gained > best_.gain && fits(slow, partner, give.tokens - take.tokens)) {
      best_ = {partner, give, take, gained};
    }
  };
  std::size_t next = 0;  // first of `takes` too cheap to transfer less than `wanted`
  for (const Bundle& give : gives_) {
    while (next < takes.size() && takes[next].cost > give.cost - wanted) ++next;
    if (next > 0) offer(give, takes[next - 1]);
    if (next < takes.size()) offer(give, takes[next]);
  }
}

bool ExchangeSearch::apply(int m, std::size_t slow) {
  if (best_.gain <= kSmallestGain * bins_->bins[slow].time) return false;
  move(*bins_, best_.give, slow, best_.partner);
  move(*bins_, best_.take, best_.partner, slow);
  forget_takes(slow);
  forget_takes(best_.partner);
  const auto other = static_cast<int>(best_.partner / static_cast<std::size_t>(bins_->num_ranks));
  if (other == m) {
    by_time(m).slowest_and_another_changed(best_.partner);
  } else {
    by_time(m).slowest_changed();
    by_time(other).changed(best_.partner);
  }
  return true;
}

}  // namespace packtrain

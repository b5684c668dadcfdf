#include "samplers/balance/exchange.h"

#include <algorithm>
#include <numeric>

namespace packtrain {
namespace {

constexpr double kClose = 1e-3;          // to the bound, relative: not worth more work
constexpr double kGoodShare = 0.5;       // of the greatest possible gain: not worth another partner
constexpr double kSmallestGain = 1e-9;   // relative: ends the search where rounding begins
constexpr std::size_t kPartners = 16;    // lightest bins of a micro-batch that are tried
constexpr std::size_t kMostPaired = 24;  // items of a bin up to which pairs are tried
constexpr int kExchangesPerBin = 8;      // bound on the work

}  // namespace

void ExchangeSearch::search(Bins& bins, int most_items) {
  close_ = bins.bound() * (1 + kClose);
  if (bins.total() <= close_) return;
  bins_ = &bins;
  exchanges_left_ = kExchangesPerBin * static_cast<int>(bins.bins.size());
  by_time_.resize(bins.bins.size());
  std::iota(by_time_.begin(), by_time_.end(), 0U);
  for (int m = 0; m < bins.num_micro_batches; ++m) {
    const auto begin = by_time_.begin() + static_cast<std::ptrdiff_t>(bins.first_bin(m));
    std::sort(begin, begin + bins.num_ranks,
              [this](std::uint32_t a, std::uint32_t b) { return lighter(a, b); });
  }
  while (sweep(1) || (most_items > 1 && sweep(most_items))) {
  }
}

bool ExchangeSearch::sweep(int most_items) {
  most_items_ = most_items;
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
  for (int m = 0; m < bins_->num_micro_batches; ++m) total += bins_->bins[slowest_bin(m)].time;
  return total;
}

bool ExchangeSearch::lighter(std::uint32_t a, std::uint32_t b) const {
  const auto& bins = bins_->bins;
  return bins[a].time != bins[b].time ? bins[a].time < bins[b].time : a < b;
}

// Insertion sort: at most two bins are out of place.
void ExchangeSearch::restore_order(int m) {
  const std::size_t begin = bins_->first_bin(m);
  for (std::size_t i = begin + 1; i < bins_->first_bin(m + 1); ++i) {
    for (std::size_t j = i; j > begin && lighter(by_time_[j], by_time_[j - 1]); --j) {
      std::swap(by_time_[j], by_time_[j - 1]);
    }
  }
}

std::span<const std::uint32_t> ExchangeSearch::lightest_bins(int m) const {
  const auto num_ranks = static_cast<std::size_t>(bins_->num_ranks);
  return std::span(by_time_).subspan(bins_->first_bin(m), std::min(kPartners, num_ranks));
}

bool ExchangeSearch::fits(std::size_t slow, std::size_t partner, std::int64_t tokens) const {
  const auto& bins = bins_->bins;
  return bins[slow].tokens - tokens <= bins_->max_tokens &&
         bins[partner].tokens + tokens <= bins_->max_tokens;
}

// One exchange inside micro-batch m that lowers the greater of the two times.
bool ExchangeSearch::level(int m) {
  const std::size_t slow = slowest_bin(m);
  const Bins::Bin& from = bins_->bins[slow];
  list_bundles(slow, gives_);
  best_ = {};
  for (const std::uint32_t partner : lightest_bins(m)) {
    const Bins::Bin& to = bins_->bins[partner];
    const double gap = from.time - to.time;
    const double wanted = gap / (from.slowness + to.slowness);  // makes them equally long
    if (partner == slow || best_.gain >= kGoodShare * wanted * from.slowness) continue;
    try_partner(slow, partner, wanted, [&](double handed) {
      return std::min(handed * from.slowness, gap - handed * to.slowness);
    });
  }
  return apply(m, slow);
}

// One exchange between micro-batch m's slowest bin and another micro-batch that shortens the step:
// what m gains is more than what the other loses.
bool ExchangeSearch::shorten(int m) {
  const std::size_t slow = slowest_bin(m);
  const Bins::Bin& from = bins_->bins[slow];
  const double second =
      bins_->num_ranks > 1 ? bins_->bins[by_time_[bins_->first_bin(m + 1) - 2]].time : 0.0;
  const double most = from.time - second;  // what m can gain
  list_bundles(slow, gives_);
  best_ = {};
  for (int other = 0; other < bins_->num_micro_batches; ++other) {
    if (other == m) continue;
    const double slowest = bins_->bins[slowest_bin(other)].time;
    for (const std::uint32_t partner : lightest_bins(other)) {
      const Bins::Bin& to = bins_->bins[partner];
      const double room = slowest - to.time;  // what costs the other nothing
      if (best_.gain >= kGoodShare * std::min(most, room)) break;
      const double wanted = (most / from.slowness + room / to.slowness) / 2;
      try_partner(slow, partner, wanted, [&](double handed) {
        return std::min(handed * from.slowness, most) - std::max(0.0, handed * to.slowness - room);
      });
    }
  }
  return apply(m, slow);
}

// The items of `bin`, and its pairs where these are wanted, in descending order of cost.
void ExchangeSearch::list_bundles(std::size_t bin, std::vector<Bundle>& bundles) const {
  list_items(*bins_, bin, bundles);
  if (most_items_ < 2 || bundles.size() > kMostPaired) return;
  add_pairs(bundles, bundles.size());
  std::ranges::sort(bundles, [](const Bundle& a, const Bundle& b) {
    if (a.cost != b.cost) return a.cost > b.cost;
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  });
}

// Tries each bundle of the slow bin with the two of the partner (or nothing) whose swap hands over
// just more and just less cost than `wanted`. One pass: both lists descend in cost.
template <typename Gain>
void ExchangeSearch::try_partner(std::size_t slow, std::size_t partner, double wanted,
                                 const Gain& gain) {
  list_bundles(partner, takes_);
  takes_.push_back({});
  const auto offer = [&](const Bundle& give, const Bundle& take) {
    const double gained = gain(give.cost - take.cost);
    if (gained > best_.gain && fits(slow, partner, give.tokens - take.tokens)) {
      best_ = {partner, give, take, gained};
    }
  };
  std::size_t next = 0;  // first of `takes_` too cheap to hand over less than `wanted`
  for (const Bundle& give : gives_) {
    while (next < takes_.size() && takes_[next].cost > give.cost - wanted) ++next;
    if (next > 0) offer(give, takes_[next - 1]);
    if (next < takes_.size()) offer(give, takes_[next]);
  }
}

bool ExchangeSearch::apply(int m, std::size_t slow) {
  if (best_.gain <= kSmallestGain * bins_->bins[slow].time) return false;
  move(*bins_, best_.give, slow, best_.partner);
  move(*bins_, best_.take, best_.partner, slow);
  restore_order(m);
  const auto num_ranks = static_cast<std::size_t>(bins_->num_ranks);
  if (const int other = static_cast<int>(best_.partner / num_ranks); other != m) {
    restore_order(other);
  }
  return true;
}

}  // namespace packtrain

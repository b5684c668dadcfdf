#include "samplers/balance/trade.h"

#include <algorithm>
#include <span>

#include "samplers/balance/search_limits.h"

namespace packtrain {
namespace {

constexpr double kGoodShareOfGap =
    0.7;  // of the greatest possible gain; then no other partner is tried
constexpr std::size_t kTradePartners = 8;  // lightest bins that are tried
constexpr int kMaxScanned = 64;            // fitting bundles that are tried in return for one
constexpr int kTradesPerBin = 4;           // bound on the work

}  // namespace

void TradeSearch::improve(Bins& bins) {
  bins_ = &bins;
  if (bundles_.size() < bins.bins.size()) bundles_.resize(bins.bins.size());
  for (std::vector<Bundle>& bundles : bundles_) bundles.clear();
  for (int m = 0; m < bins.num_micro_batches; ++m) {
    by_time_.reset(bins, m);
    total_ = 0;
    for (const std::uint32_t bin : by_time_.bins()) total_ += bins.bins[bin].time;
    for (int trades = kTradesPerBin * bins.num_ranks; trades > 0 && level(); --trades) {
    }
  }
}

// Makes one trade inside the micro-batch that lowers the greater of two times.
bool TradeSearch::level() {
  const auto& bins = bins_->bins;
  const std::size_t slow = by_time_.slowest();
  const double mean = total_ / bins_->num_ranks;
  if (bins[slow].time <= mean * (1 + kClose)) return false;
  best_ = {};
  const std::span<const std::uint32_t> lightest = by_time_.bins();
  for (std::size_t i = 0; i + 1 < lightest.size() && i < kTradePartners; ++i) {
    const double gap = bins[slow].time - bins[lightest[i]].time;
    if (best_.gain >= kGoodShareOfGap * gap / 2) break;
    try_partner(slow, lightest[i]);
  }
  if (best_.gain <= kSmallestGain * bins[slow].time) return false;
  total_ -= bins[slow].time + bins[best_.partner].time;
  move(*bins_, best_.give, slow, best_.partner);
  move(*bins_, best_.take, best_.partner, slow);
  total_ += bins[slow].time + bins[best_.partner].time;
  by_time_.slowest_and_another_changed(best_.partner);
  bundles_[slow].clear();
  bundles_[best_.partner].clear();
  return true;
}

const std::vector<Bundle>& TradeSearch::bundles_of(std::size_t bin) {
  std::vector<Bundle>& bundles = bundles_[bin];
  if (!bundles.empty()) return bundles;
  list_items(*bins_, bin, bundles);
  add_pairs(bundles, std::min(kMaxPaired, bundles.size()));
  std::ranges::sort(bundles, [](const Bundle& a, const Bundle& b) {
    if (a.tokens != b.tokens) return a.tokens < b.tokens;
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  });
  return bundles;
}

// Tries each bundle of the slow bin with those of the partner for which both bins have space.
void TradeSearch::try_partner(std::size_t slow, std::size_t partner) {
  const Bins::Bin& from = bins_->bins[slow];
  const Bins::Bin& to = bins_->bins[partner];
  const double gap = from.time - to.time;
  const std::vector<Bundle>& gives = bundles_of(slow);
  const std::vector<Bundle>& takes = bundles_of(partner);
  std::size_t begin = 0;  // first bundle long enough for the partner's budget
  for (const Bundle& give : gives) {
    const std::int64_t shortest = give.tokens - (bins_->max_tokens - to.tokens);
    const std::int64_t longest = give.tokens + (bins_->max_tokens - from.tokens);
    while (begin < takes.size() && takes[begin].tokens < shortest) ++begin;
    const std::size_t end = std::min(takes.size(), begin + kMaxScanned);
    for (std::size_t i = begin; i < end && takes[i].tokens <= longest; ++i) {
      const double handed = give.cost - takes[i].cost;
      const double gained = std::min(handed * from.slowness, gap - handed * to.slowness);
      if (gained > best_.gain) best_ = {partner, give, takes[i], gained};
    }
  }
}

}  // namespace packtrain

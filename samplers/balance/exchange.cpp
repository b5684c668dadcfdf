#include "samplers/balance/exchange.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace packtrain {
namespace {

using Bin = Bins::Bin;

constexpr std::int32_t kNoItem = -1;
constexpr std::size_t kPartners = 16;   // lightest bins of a micro-batch that are tried
constexpr int kExchangesPerBin = 8;     // bound on the work
constexpr double kSmallestGain = 1e-9;  // relative: ends the search where rounding begins

// `give` goes from the slow bin to the partner, `take` (or nothing) comes back.
struct Exchange {
  std::size_t partner = 0;
  std::int32_t give = kNoItem;
  std::int32_t take = kNoItem;
  double gain = 0;
};

class Search {
 public:
  explicit Search(Bins& bins) : bins_(bins) {}

  void run() {
    int left = kExchangesPerBin * static_cast<int>(bins_.bins.size());
    for (bool changed = true; changed && left > 0;) {
      changed = false;
      for (int m = 0; m < bins_.num_micro_batches; ++m) {
        while (left > 0 && (level(m) || shorten(m))) {
          changed = true;
          --left;
        }
      }
    }
  }

 private:
  double cost_of(std::int32_t item) const {
    return item == kNoItem ? 0.0 : bins_.items[static_cast<std::size_t>(item)].cost;
  }
  std::int64_t tokens_of(std::int32_t item) const {
    return item == kNoItem ? 0 : bins_.items[static_cast<std::size_t>(item)].tokens;
  }
  std::size_t first_bin(int m) const {
    return static_cast<std::size_t>(m) * static_cast<std::size_t>(bins_.num_ranks);
  }

  std::size_t slowest_bin(int m) const {
    const auto bins = bins_.micro_batch(m);
    const auto slowest = std::ranges::max_element(bins, {}, &Bin::cost);
    return first_bin(m) + static_cast<std::size_t>(slowest - bins.begin());
  }

  // The lightest bins of micro-batch m, in ascending order of cost, without `except`.
  void find_partners(int m, std::size_t except) {
    partners_.clear();
    for (std::size_t i = 0; i < static_cast<std::size_t>(bins_.num_ranks); ++i) {
      if (first_bin(m) + i != except) partners_.push_back(first_bin(m) + i);
    }
    const std::size_t count = std::min(kPartners, partners_.size());
    std::ranges::partial_sort(partners_, partners_.begin() + static_cast<std::ptrdiff_t>(count),
                              [&](std::size_t a, std::size_t b) {
                                return bins_.bins[a].cost != bins_.bins[b].cost
                                           ? bins_.bins[a].cost < bins_.bins[b].cost
                                           : a < b;
                              });
    partners_.resize(count);
  }

  // Calls visit(give, take, difference) for each item of `slow` with the two items of `partner`
  // (or nothing) whose swap hands over just more and just less than `wanted`.
  // One pass: both lists descend in cost.
  template <typename Visit>
  void near(const Bin& slow, const Bin& partner, double wanted, const Visit& visit) const {
    std::size_t next = 0;  // first item of `partner` too cheap to hand over less than `wanted`
    for (const std::int32_t give : slow.items) {
      const double threshold = cost_of(give) - wanted;
      while (next < partner.items.size() && cost_of(partner.items[next]) > threshold) ++next;
      const std::int32_t above = next > 0 ? partner.items[next - 1] : kNoItem;
      const std::int32_t below = next < partner.items.size() ? partner.items[next] : kNoItem;
      if (above != kNoItem) visit(give, above);
      visit(give, below);
    }
  }

  bool fits(const Bin& slow, const Bin& partner, std::int32_t give, std::int32_t take) const {
    const std::int64_t tokens = tokens_of(give) - tokens_of(take);
    return slow.tokens - tokens <= bins_.max_tokens && partner.tokens + tokens <= bins_.max_tokens;
  }

  // One exchange inside micro-batch m that lowers the greater of the two costs.
  bool level(int m) {
    const std::size_t slow = slowest_bin(m);
    const Bin& from = bins_.bins[slow];
    find_partners(m, slow);
    Exchange best;
    for (const std::size_t partner : partners_) {
      const Bin& to = bins_.bins[partner];
      near(from, to, (from.cost - to.cost) / 2, [&](std::int32_t give, std::int32_t take) {
        const double handed = cost_of(give) - cost_of(take);
        const double gain = std::min(handed, from.cost - to.cost - handed);
        if (gain > best.gain && fits(from, to, give, take)) best = {partner, give, take, gain};
      });
    }
    return apply(slow, best);
  }

  // One exchange between micro-batch m's slowest bin and another micro-batch that shortens the
  // step: what m gains is more than what the other loses.
  bool shorten(int m) {
    const std::size_t slow = slowest_bin(m);
    const Bin& from = bins_.bins[slow];
    double second = 0;
    for (std::size_t bin = first_bin(m); bin < first_bin(m + 1); ++bin) {
      if (bin != slow) second = std::max(second, bins_.bins[bin].cost);
    }
    Exchange best;
    for (int other = 0; other < bins_.num_micro_batches; ++other) {
      if (other == m) continue;
      const double slowest = bins_.slowest(other);
      find_partners(other, slow);
      for (const std::size_t partner : partners_) {
        const Bin& to = bins_.bins[partner];
        const double wanted = ((from.cost - second) + (slowest - to.cost)) / 2;
        near(from, to, wanted, [&](std::int32_t give, std::int32_t take) {
          const double handed = cost_of(give) - cost_of(take);
          const double gain =
              std::min(handed, from.cost - second) - std::max(0.0, to.cost + handed - slowest);
          if (gain > best.gain && fits(from, to, give, take)) best = {partner, give, take, gain};
        });
      }
    }
    return apply(slow, best);
  }

  bool apply(std::size_t slow, const Exchange& exchange) {
    // An emptied bin's cost may be a rounding error away from 0, on either side.
    if (exchange.give == kNoItem) return false;
    if (exchange.gain <= kSmallestGain * bins_.bins[slow].cost) return false;
    move(exchange.give, slow, exchange.partner);
    if (exchange.take != kNoItem) move(exchange.take, exchange.partner, slow);
    return true;
  }

  void move(std::int32_t item, std::size_t from, std::size_t to) {
    Bin& source = bins_.bins[from];
    Bin& target = bins_.bins[to];
    source.items.erase(std::ranges::lower_bound(source.items, item));
    target.items.insert(std::ranges::lower_bound(target.items, item), item);
    source.cost -= cost_of(item);
    target.cost += cost_of(item);
    source.tokens -= tokens_of(item);
    target.tokens += tokens_of(item);
  }

  Bins& bins_;
  std::vector<std::size_t> partners_;
};

}  // namespace

void improve_by_exchange(Bins& bins) {
  Search(bins).run();
}

}  // namespace packtrain

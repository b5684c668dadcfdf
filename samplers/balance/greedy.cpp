#include "samplers/balance/greedy.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace packtrain {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// The bin of least time, kept up to date as loads grow: a tournament tree (D. E. Knuth, The Art of
// Computer Programming 3, 5.4.1). Node n is won by the better of nodes 2n and 2n + 1; node 1 is the
// final; the leaves are the bins.
class LeastLoaded {
 public:
  struct Player {
    std::uint64_t time_bits = 0;  // integers compare as the numbers >= 0 whose bits they hold do
    std::uint64_t bin = 0;
  };

  // All bins are empty. `nodes` is scratch memory.
  LeastLoaded(std::size_t num_bins, std::vector<Player>& nodes)
      : num_leaves_(std::bit_ceil(num_bins)), nodes_(nodes) {
    const Player nobody{bits(std::numeric_limits<double>::infinity()), 0};
    nodes_.assign(2 * num_leaves_, nobody);
    for (std::size_t bin = 0; bin < num_bins; ++bin) nodes_[num_leaves_ + bin] = {bits(0.0), bin};
    for (std::size_t node = num_leaves_ - 1; node > 0; --node) nodes_[node] = nodes_[2 * node];
  }

  std::size_t get() const { return nodes_[1].bin; }

  // The load of `bin` has changed.
  void update(std::size_t bin, double time) {
    Player winner{bits(time), bin};
    for (std::size_t node = num_leaves_ + bin; node > 1; node /= 2) {
      nodes_[node] = winner;
      const Player rival = nodes_[node ^ 1];
      // Ties go to the left. Without branches: who wins cannot be predicted.
      const bool lost = rival.time_bits < winner.time_bits + (node & 1);
      winner.time_bits = lost ? rival.time_bits : winner.time_bits;
      winner.bin = lost ? rival.bin : winner.bin;
    }
    nodes_[1] = winner;
  }

 private:
  static std::uint64_t bits(double time) { return std::bit_cast<std::uint64_t>(time); }

  std::size_t num_leaves_;
  std::vector<Player>& nodes_;
};

std::size_t first_done(const Bins& bins, ItemNumber item) {
  std::size_t best = kNone;
  double best_time = 0;
  for (std::size_t bin = 0; bin < bins.bins.size(); ++bin) {
    const double time = bins.time_with(bin, item);
    if ((best == kNone || time < best_time) && bins.has_room(bin, item)) {
      best = bin;
      best_time = time;
    }
  }
  return best;
}

}  // namespace

bool place_longest_first(Bins& bins) {
  thread_local std::vector<LeastLoaded::Player> nodes;
  LeastLoaded least_loaded(bins.bins.size(), nodes);
  for (ItemNumber item = 0; item < bins.items.size(); ++item) {
    std::size_t bin = least_loaded.get();
    if (!bins.ranks_alike || !bins.has_room(bin, item)) bin = first_done(bins, item);
    if (bin == kNone) return false;
    bins.append(bin, item);
    least_loaded.update(bin, bins.bins[bin].time);
  }
  return true;
}

bool place_least_increase(Bins& bins) {
  thread_local std::vector<double> slowest;  // of each micro-batch
  slowest.assign(static_cast<std::size_t>(bins.num_micro_batches), 0.0);
  const auto num_ranks = static_cast<std::size_t>(bins.num_ranks);
  for (ItemNumber item = 0; item < bins.items.size(); ++item) {
    std::size_t best = kNone;
    std::pair<double, double> best_key;  // increase, time
    for (std::size_t m = 0, bin = 0; m < slowest.size(); ++m) {
      for (std::size_t rank = 0; rank < num_ranks; ++rank, ++bin) {
        if (!bins.has_room(bin, item)) continue;
        const double time = bins.time_with(bin, item);
        const std::pair key(std::max(0.0, time - slowest[m]), time);
        if (best == kNone || key < best_key) {
          best = bin;
          best_key = key;
        }
      }
    }
    if (best == kNone) return false;
    bins.append(best, item);
    double& changed = slowest[best / num_ranks];
    changed = std::max(changed, bins.bins[best].time);
  }
  return true;
}

bool place_best_fit(Bins& bins) {
  thread_local std::vector<ItemNumber> by_tokens;
  by_tokens.resize(bins.items.size());
  std::iota(by_tokens.begin(), by_tokens.end(), 0U);
  std::ranges::stable_sort(by_tokens, std::ranges::greater{},
                           [&](ItemNumber item) { return bins.items[item].tokens; });
  for (const ItemNumber item : by_tokens) {
    std::size_t best = kNone;
    for (std::size_t bin = 0; bin < bins.bins.size(); ++bin) {
      if (!bins.has_room(bin, item)) continue;
      if (best == kNone || bins.bins[bin].tokens > bins.bins[best].tokens) best = bin;
    }
    if (best == kNone) return false;
    bins.insert(best, item);
  }
  return true;
}

}  // namespace packtrain

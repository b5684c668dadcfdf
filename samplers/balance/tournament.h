// Which bin is done first with an item: tournament trees (D. E. Knuth, The Art of Computer
// Programming 3, 5.4.1) that a change of one bin costs a match a level. Node n is won by the better
// of nodes 2n and 2n + 1; node 1 is the final; the leaves are the bins. Ties go to the lower bin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "samplers/balance/bins.h"

namespace packtrain {

constexpr std::size_t kNoBin = std::numeric_limits<std::size_t>::max();
constexpr double kClosed =
    std::numeric_limits<double>::infinity();  // time of a bin that is left out

// Between ranks alike the bin of least time is first done, whatever the item.
class EqualSpeedTournament {
 public:
  // Empty bins. Memory is reused.
  void reset(std::span<const Bins::Bin> bins);
  // kNoBin when all are closed.
  std::size_t first(double /*cost*/) const {
    return nodes_[1].time_bits == bits(kClosed) ? kNoBin : nodes_[1].bin;
  }
  void set(std::size_t bin, double time);

 private:
  struct Player {
    std::uint64_t time_bits = 0;  // integers compare as the numbers >= 0 whose bits they hold do
    std::uint64_t bin = 0;
  };

  static std::uint64_t bits(double time);

  std::size_t num_leaves_ = 0;
  std::vector<Player> nodes_;
};

// Between ranks of different speed it depends on the item: cost c is done at time + c * slowness. A
// kinetic tournament (J. Basch, L. Guibas, J. Hershberger, "Data structures for mobile data",
// J. Algorithms 1999), where what moves is not time but the cost of the item, which may not rise
// from call to call: each node knows down to which cost its winner remains it, and only the nodes
// where that has passed are played again.
class SpeedTournament {
 public:
  // Empty bins. Memory is reused.
  void reset(std::span<const Bins::Bin> bins);
  // kNoBin when all are closed. `cost` must not exceed that of the call before.
  std::size_t first(double cost);
  void set(std::size_t bin, double time);

  // Since the beginning: what the work is proportional to.
  std::int64_t num_matches() const { return num_matches_; }

 private:
  struct Player {
    double time = kClosed;
    double slowness = 1;
  };
  struct Node {
    double holds_to = 0;  // at a lower cost a winner of this subtree may be another
    std::size_t bin = 0;
  };

  void refresh(std::size_t node);
  void play(std::size_t node);

  std::size_t num_leaves_ = 0;
  double cost_ = 0;
  std::vector<Player> players_;
  std::vector<Node> nodes_;
  std::int64_t num_matches_ = 0;
};

}  // namespace packtrain

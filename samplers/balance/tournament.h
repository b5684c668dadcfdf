// Finds the bin that finishes first with an item, with tournament trees (D. E. Knuth, The Art of
// Computer Programming 3, 5.4.1). A change of one bin costs one match for each level. Node n is won
// by the better of nodes 2n and 2n + 1. Node 1 is the final, and the leaves are the bins. Ties go
// to the lower bin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "samplers/balance/bins.h"

namespace packtrain {

constexpr std::size_t kNoBin = std::numeric_limits<std::size_t>::max();
constexpr double kClosed = std::numeric_limits<double>::infinity();  // time of a closed bin

// At equal speeds the bin of least time finishes first, for any item.
class EqualSpeedTournament {
 public:
  // Starts with empty bins. Memory is reused.
  void reset(std::span<const Bins::Bin> bins);
  // Returns kNoBin when all bins are closed.
  std::size_t first(double /*cost*/) const {
    return nodes_[1].time_bits == bits(kClosed) ? kNoBin : nodes_[1].bin;
  }
  void set(std::size_t bin, double time);

 private:
  struct Player {
    std::uint64_t time_bits = 0;  // as bits: integers order as the numbers >= 0 do
    std::uint64_t bin = 0;
  };

  static std::uint64_t bits(double time);

  std::size_t num_leaves_ = 0;
  std::vector<Player> nodes_;
};

// At different speeds the winner depends on the item: a bin finishes cost c at time + c * slowness.
// This is a kinetic tournament (J. Basch, L. Guibas, J. Hershberger, "Data structures for mobile
// data", J. Algorithms 1999). Its parameter is the cost of the item instead of time, and it may not
// rise from call to call. Each node stores down to which cost its winner is valid. Only nodes that
// the cost has passed are played again.
class SpeedTournament {
 public:
  // Starts with empty bins. Memory is reused.
  void reset(std::span<const Bins::Bin> bins);
  // Returns kNoBin when all bins are closed. `cost` must not exceed that of the previous call.
  std::size_t first(double cost);
  void set(std::size_t bin, double time);

  // Matches since the start. The work is proportional to it.
  std::int64_t num_matches() const { return num_matches_; }

 private:
  struct Player {
    double time = kClosed;
    double slowness = 1;
  };
  struct Node {
    double holds_to = 0;  // at a lower cost the subtree may have another winner
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

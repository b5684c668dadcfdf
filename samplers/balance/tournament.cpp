#include "samplers/balance/tournament.h"

#include <algorithm>
#include <bit>

namespace packtrain {

std::uint64_t EqualSpeedTournament::bits(double time) {
  return std::bit_cast<std::uint64_t>(time);
}

void EqualSpeedTournament::reset(std::span<const Bins::Bin> bins) {
  num_leaves_ = std::bit_ceil(bins.size());
  nodes_.assign(2 * num_leaves_, {bits(kClosed), 0});
  for (std::size_t bin = 0; bin < bins.size(); ++bin) nodes_[num_leaves_ + bin] = {bits(0.0), bin};
  for (std::size_t node = num_leaves_ - 1; node > 0; --node) nodes_[node] = nodes_[2 * node];
}

void EqualSpeedTournament::set(std::size_t bin, double time) {
  Player winner{bits(time), bin};
  for (std::size_t node = num_leaves_ + bin; node > 1; node /= 2) {
    nodes_[node] = winner;
    const Player rival = nodes_[node ^ 1];
    // Ties go to the left. No branches, because the winner is not predictable.
    const bool lost = rival.time_bits < winner.time_bits + (node & 1);
    winner.time_bits = lost ? rival.time_bits : winner.time_bits;
    winner.bin = lost ? rival.bin : winner.bin;
  }
  nodes_[1] = winner;
}

void SpeedTournament::reset(std::span<const Bins::Bin> bins) {
  num_leaves_ = std::bit_ceil(bins.size());
  players_.assign(num_leaves_, {});
  nodes_.assign(2 * num_leaves_, {kClosed, 0});  // no match is played yet, so no winner is valid
  for (std::size_t bin = 0; bin < num_leaves_; ++bin) {
    if (bin < bins.size()) players_[bin] = {0.0, bins[bin].slowness};
    nodes_[num_leaves_ + bin] = {0.0, bin};
  }
}

std::size_t SpeedTournament::first(double cost) {
  cost_ = cost;
  refresh(1);
  return players_[nodes_[1].bin].time == kClosed ? kNoBin : nodes_[1].bin;
}

void SpeedTournament::set(std::size_t bin, double time) {
  players_[bin].time = time;
  for (std::size_t node = (num_leaves_ + bin) / 2; node > 0; node /= 2) play(node);
}

void SpeedTournament::refresh(std::size_t node) {
  if (cost_ >= nodes_[node].holds_to) return;
  refresh(2 * node);
  refresh(2 * node + 1);
  play(node);
}

void SpeedTournament::play(std::size_t node) {
  ++num_matches_;
  const Node& left = nodes_[2 * node];
  const Node& right = nodes_[2 * node + 1];
  const Player& a = players_[left.bin];
  const Player& b = players_[right.bin];
  const bool right_wins = b.time + cost_ * b.slowness < a.time + cost_ * a.slowness;
  const Player& winner = right_wins ? b : a;
  const Player& loser = right_wins ? a : b;
  double holds_to = std::max(left.holds_to, right.holds_to);
  // A loser on a slower rank gains on the winner as the cost falls.
  if (loser.slowness > winner.slowness && loser.time < winner.time) {
    const double overtakes = (winner.time - loser.time) / (loser.slowness - winner.slowness);
    holds_to = std::max(holds_to, std::min(overtakes, cost_));
  }
  nodes_[node] = {holds_to, right_wins ? right.bin : left.bin};
}

}  // namespace packtrain

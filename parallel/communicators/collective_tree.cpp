#include "parallel/communicators/collective_tree.h"

#include <algorithm>

namespace packtrain {
namespace {

// (rank + distance) mod size; both are below size.
int rank_at(std::size_t rank, std::size_t distance, std::size_t size) {
  return static_cast<int>((rank + distance) % size);
}

}  // namespace

std::vector<GatherRound> all_gather_rounds(int rank, int size) {
  const auto own = static_cast<std::size_t>(rank);
  const auto all = static_cast<std::size_t>(size);
  std::vector<GatherRound> rounds;
  for (std::size_t known = 1; known < all; known *= 2) {
    rounds.push_back(
        {rank_at(own, all - known, all), rank_at(own, known, all), std::min(known, all - known)});
  }
  return rounds;
}

std::vector<BlockRange> blocks_from(int rank, std::size_t num_blocks, int size) {
  const auto first = static_cast<std::size_t>(rank);
  const std::size_t num_before_end = std::min(num_blocks, static_cast<std::size_t>(size) - first);
  std::vector<BlockRange> ranges = {{first, num_before_end}};
  if (num_before_end < num_blocks) ranges.push_back({0, num_blocks - num_before_end});
  return ranges;
}

TreeNode tree_position(int rank, int size, int root) {
  const auto all = static_cast<std::size_t>(size);
  const auto own = static_cast<std::size_t>(rank);
  const std::size_t place = (own + all - static_cast<std::size_t>(root)) % all;
  TreeNode result;
  std::size_t distance = 1;
  for (; place + distance < all && (place & distance) == 0; distance *= 2) {
    const std::size_t num_ranks = std::min(distance, all - place - distance);
    result.children.push_back({rank_at(own, distance, all), distance, num_ranks});
    result.num_ranks += num_ranks;
  }
  if (place > 0) {
    const std::size_t lowest = place & (~place + 1);
    result.parent = rank_at(own, all - lowest, all);
  }
  return result;
}

}  // namespace packtrain

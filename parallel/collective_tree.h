// Who sends what to whom in collectives of log2(size) rounds, in which a rank meets at most
// 2 log2(size) others: those whose distance is a power of two.
#pragma once

#include <cstddef>
#include <vector>

namespace packtrain {

// One round of an all-gather (Bruck's). A rank has the blocks of the ranks rank, rank + 1, ... (mod
// size), at first its own alone. It sends the first `num_blocks` of them to `to`, and gets as many
// from `from`, which begin with the block of `from`.
struct GatherRound {
  int to = 0;
  int from = 0;
  std::size_t num_blocks = 0;
};
std::vector<GatherRound> all_gather_rounds(int rank, int size);

// Blocks rank, rank + 1, ... (mod size): one range of neighbours, or two where they go on at 0.
struct BlockRange {
  std::size_t first = 0;
  std::size_t num = 0;
};
std::vector<BlockRange> blocks_from(int rank, std::size_t num_blocks, int size);

// A rank's place in a binomial tree, whose ranks are counted from `root` (mod size). The subtree of
// a rank is the ranks rank, rank + 1, ..., rank + num_ranks - 1.
struct TreeChild {
  int rank = 0;
  std::size_t distance = 0;   // from its parent
  std::size_t num_ranks = 0;  // in its subtree
};
struct TreeNode {
  int parent = -1;                  // -1: this is the root
  std::size_t num_ranks = 1;        // in its subtree
  std::vector<TreeChild> children;  // by distance, the nearest first: the smallest subtree
};
TreeNode tree_position(int rank, int size, int root);

}  // namespace packtrain

// Communication pattern of collectives of log2(size) rounds. A rank communicates with at most 2
// log2(size) others, whose distances are powers of two.
#pragma once

#include <cstddef>
#include <vector>

namespace packtrain {

// One round of an all-gather (Bruck's algorithm). A rank has the blocks of ranks rank, rank + 1,
// ... (mod size), at first only its own. It sends the first `num_blocks` of them to `to`. It
// receives as many from `from`, starting with the block of `from`.
struct GatherRound {
  int to = 0;
  int from = 0;
  std::size_t num_blocks = 0;
};
std::vector<GatherRound> all_gather_rounds(int rank, int size);

// Blocks rank, rank + 1, ... (mod size): one range, or two where they continue at 0.
struct BlockRange {
  std::size_t first = 0;
  std::size_t num = 0;
};
std::vector<BlockRange> blocks_from(int rank, std::size_t num_blocks, int size);

// A rank's position in a binomial tree. Ranks are counted from `root` (mod size). The subtree of a
// rank is the ranks rank, rank + 1, ..., rank + num_ranks - 1.
struct TreeChild {
  int rank = 0;
  std::size_t distance = 0;   // from its parent
  std::size_t num_ranks = 0;  // in its subtree
};
struct TreeNode {
  int parent = -1;                  // -1: this is the root
  std::size_t num_ranks = 1;        // in its subtree
  std::vector<TreeChild> children;  // by ascending distance: the smallest subtree first
};
TreeNode tree_position(int rank, int size, int root);

}  // namespace packtrain

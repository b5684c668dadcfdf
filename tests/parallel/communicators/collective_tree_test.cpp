#include "parallel/communicators/collective_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <vector>

namespace packtrain {
namespace {

std::size_t num_rounds(int size) {
  return std::bit_width(static_cast<unsigned>(size) - 1);
}

class CollectiveTree : public testing::TestWithParam<int> {
 protected:
  int size_ = GetParam();
};

// Plays all ranks: who has which block after each round.
TEST_P(CollectiveTree, AllGatherBringsEveryBlockToEveryRank) {
  const auto all = static_cast<std::size_t>(size_);
  std::vector<std::size_t> num_known(all, 1);  // blocks rank, rank + 1, ...
  for (std::size_t k = 0; k < num_rounds(size_); ++k) {
    const std::vector<std::size_t> before = num_known;
    for (int rank = 0; rank < size_; ++rank) {
      const auto own = static_cast<std::size_t>(rank);
      const GatherRound round = all_gather_rounds(rank, size_)[k];
      ASSERT_EQ(all_gather_rounds(round.from, size_)[k].to, rank);
      ASSERT_LE(round.num_blocks, before[own]) << "sends what it does not have";
      ASSERT_EQ((own + num_known[own]) % all, static_cast<std::size_t>(round.from));
      num_known[own] += round.num_blocks;
    }
  }
  for (const std::size_t num : num_known) EXPECT_EQ(num, all);
}

TEST_P(CollectiveTree, EverySubtreeIsARunOfRanksAndAllAreInTheRoots) {
  for (const int root : {0, size_ / 3, size_ - 1}) {
    for (int rank = 0; rank < size_; ++rank) {
      const TreeNode place = tree_position(rank, size_, root);
      std::size_t next = 1;
      for (const TreeChild& child : place.children) {
        ASSERT_EQ(child.distance, next);
        ASSERT_EQ(child.rank, static_cast<int>((static_cast<std::size_t>(rank) + next) %
                                               static_cast<std::size_t>(size_)));
        const TreeNode below = tree_position(child.rank, size_, root);
        ASSERT_EQ(below.parent, rank);
        ASSERT_EQ(below.num_ranks, child.num_ranks);
        next += child.num_ranks;
      }
      ASSERT_EQ(place.num_ranks, next);
      ASSERT_EQ(place.parent < 0, rank == root);
    }
    EXPECT_EQ(tree_position(root, size_, root).num_ranks, static_cast<std::size_t>(size_));
  }
}

TEST_P(CollectiveTree, ARankExchangesWithAtMostTwoOthersARound) {
  for (int rank = 0; rank < size_; ++rank) {
    std::set<int> peers;
    for (const GatherRound& round : all_gather_rounds(rank, size_)) {
      peers.insert({round.to, round.from});
    }
    const TreeNode place = tree_position(rank, size_, 0);
    if (place.parent >= 0) peers.insert(place.parent);
    for (const TreeChild& child : place.children) peers.insert(child.rank);
    ASSERT_LE(peers.size(), 2 * num_rounds(size_)) << "rank " << rank;
  }
}

TEST(BlocksFrom, ContinueAtTheFirstRank) {
  const std::vector<BlockRange> ranges = blocks_from(3, 4, 5);
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].first, 3U);
  EXPECT_EQ(ranges[0].num, 2U);
  EXPECT_EQ(ranges[1].first, 0U);
  EXPECT_EQ(ranges[1].num, 2U);
  EXPECT_EQ(blocks_from(0, 5, 5).size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Sizes, CollectiveTree,
                         testing::Values(1, 2, 3, 5, 8, 13, 64, 512, 1000, 4096));

}  // namespace
}  // namespace packtrain

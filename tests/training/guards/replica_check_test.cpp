// Tests the comparison of ranks that should hold equal state.
#include "training/guards/replica_check.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace packtrain {
namespace {

TEST(ReplicasThatDiffer, AreNotThereWhereAllHoldTheSame) {
  EXPECT_EQ(describe_difference({7, 7, 7}, 1), "");
  EXPECT_EQ(describe_difference({1, 2, 1, 2}, 2), "");
}

TEST(ReplicasThatDiffer, OfThreeOrMoreTheOddOneIsNamed) {
  EXPECT_EQ(describe_difference({7, 7, 5}, 1), "rank 2 differs from ranks 0, 1");
  EXPECT_EQ(describe_difference({9, 7, 7, 5, 7}, 1), "ranks 0, 3 differ from ranks 1, 2, 4");
}

TEST(ReplicasThatDiffer, OfTwoBothAre) {
  EXPECT_EQ(describe_difference({7, 5}, 1),
            "rank 0 and rank 1 differ, and no majority tells which is right");
  EXPECT_EQ(describe_difference({7, 5, 5, 7}, 1),
            "ranks 0, 3 and ranks 1, 2 differ, and no majority tells which is right");
}

TEST(ReplicasThatDiffer, AreThoseThatDoNotHoldEqualBits) {
  std::vector<std::int64_t> sums(4096);
  for (std::size_t rank = 0; rank < sums.size(); ++rank) {
    sums[rank] = static_cast<std::int64_t>(rank % 8);
  }
  EXPECT_TRUE(all_replicas_equal(sums, 8));
  EXPECT_FALSE(all_replicas_equal(sums, 4));
  for (const std::size_t odd :
       {std::size_t{0}, std::size_t{7}, std::size_t{2000}, std::size_t{4095}}) {
    std::vector<std::int64_t> damaged = sums;
    damaged[odd] = -1;
    EXPECT_FALSE(all_replicas_equal(damaged, 8));
    EXPECT_NE(describe_difference(damaged, 8), "");
  }
  EXPECT_TRUE(all_replicas_equal(std::vector<std::int64_t>{5}, 1));
}

TEST(ReplicasThatDiffer, AreComparedWithTheOwnersOfTheSamePartOnly) {
  EXPECT_EQ(describe_difference({1, 2, 1, 2, 1, 3}, 2), "rank 5 differs from ranks 1, 3");
}

}  // namespace
}  // namespace packtrain

#include "framework/data/attention_pattern.h"

#include <gtest/gtest.h>

namespace packtrain::attention_pattern_test {
namespace {

constexpr AttentionPattern kFull;
constexpr AttentionPattern kWindow = {.window = 3};
constexpr AttentionPattern kChunks = {.chunk = 4};

TEST(AttentionPattern, OfFullAttentionSeesAllKeysUpToTheQuerys) {
  EXPECT_TRUE(kFull.is_full());
  for (std::int64_t key = 0; key < 9; ++key) EXPECT_EQ(kFull.sees(5, key), key <= 5) << key;
}

TEST(AttentionPattern, OfAWindowSeesThatManyKeysWithTheQuerys) {
  EXPECT_FALSE(kWindow.is_full());
  for (std::int64_t key = 0; key < 9; ++key) {
    EXPECT_EQ(kWindow.sees(5, key), key >= 3 && key <= 5) << key;
    EXPECT_EQ(kWindow.sees(1, key), key <= 1) << key;
  }
}

TEST(AttentionPattern, OfChunksSeesTheKeysOfTheQuerysChunk) {
  EXPECT_FALSE(kChunks.is_full());
  for (std::int64_t key = 0; key < 12; ++key) {
    EXPECT_EQ(kChunks.sees(3, key), key <= 3) << key;
    EXPECT_EQ(kChunks.sees(4, key), key == 4) << key;
    EXPECT_EQ(kChunks.sees(10, key), key >= 8 && key <= 10) << key;
  }
}

TEST(AttentionPattern, CountsThePairsThatItSees) {
  for (const AttentionPattern& pattern : {kFull, kWindow, AttentionPattern{.window = 1}, kChunks}) {
    std::int64_t pairs = 0;
    for (std::int64_t length = 0; length < 12; ++length) {
      EXPECT_EQ(pattern.pairs(length), pairs) << pattern.window << " " << length;
      for (std::int64_t key = 0; key <= length; ++key) pairs += pattern.sees(length, key) ? 1 : 0;
    }
  }
}

TEST(AttentionPattern, IsFullInSequencesThatItsWindowOrChunkCovers) {
  EXPECT_EQ(kWindow.within(2), kFull);
  EXPECT_EQ(kWindow.within(3), kFull);
  EXPECT_EQ(kWindow.within(4), kWindow);
  EXPECT_EQ(kFull.within(4), kFull);
  EXPECT_EQ(kChunks.within(4), kFull);
  EXPECT_EQ(kChunks.within(5), kChunks);
}

}  // namespace
}  // namespace packtrain::attention_pattern_test

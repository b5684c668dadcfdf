#include "framework/data/attention_segment.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/core/error.h"

namespace packtrain::attention_segment_test {
namespace {

constexpr AttentionPattern kFull;
const std::vector<std::int32_t> kBoundaries = {0, 3, 5, 5, 8};

TEST(AttentionSegment, OfASequenceSeesItsOwnRowsCausally) {
  const AttentionSegment segment = AttentionSegments(kBoundaries, {})[1];
  EXPECT_TRUE(segment.is_sequence());
  EXPECT_EQ(segment.rows, (RowRange{3, 5}));
  EXPECT_EQ(segment.num_prefix(), 0);
  EXPECT_EQ(segment.num_keys(), 2);
  for (std::int64_t key = 0; key < 8; ++key) {
    EXPECT_EQ(segment.sees(3, key, kFull), key == 3) << key;
    EXPECT_EQ(segment.sees(4, key, kFull), key == 3 || key == 4) << key;
  }
}

TEST(AttentionSegment, WithAPrefixSeesItBeforeItsOwnRows) {
  const std::vector<SegmentPrefix> prefixes = {{3, {{0, 2}, {4, 5}}}};
  const AttentionSegment segment = AttentionSegments(kBoundaries, prefixes)[3];
  EXPECT_EQ(segment.num_prefix(), 3);
  EXPECT_EQ(segment.num_keys(), 6);
  // Keys at positions 0 to 5 are rows 0, 1, 4, 5, 6, 7.
  for (std::int64_t key = 0; key < 8; ++key) {
    EXPECT_EQ(segment.sees(6, key, kFull), key < 2 || (key > 3 && key < 7)) << key;
    EXPECT_EQ(segment.sees(5, key, {.window = 3}), key == 1 || key == 4 || key == 5) << key;
  }
}

TEST(AttentionSegments, HavePrefixesOnlyWhereTheyAreGiven) {
  const std::vector<SegmentPrefix> prefixes = {{1, {{0, 3}}}, {3, {{0, 1}}}};
  const AttentionSegments segments(kBoundaries, prefixes);
  ASSERT_EQ(segments.size(), 4);
  std::vector<std::int64_t> sizes;
  for (std::int64_t s = 0; s < segments.size(); ++s) sizes.push_back(segments[s].num_prefix());
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{0, 3, 0, 1}));
}

TEST(AttentionSegments, NameTheReaderThatNeedsSequences) {
  const std::vector<SegmentPrefix> prefixes = {{1, {{0, 3}}}};
  AttentionSegments(kBoundaries, {}).require_sequences("a kernel");
  try {
    AttentionSegments(kBoundaries, prefixes).require_sequences("a kernel");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kInternal);
    EXPECT_EQ(error.message(),
              "a kernel: segment 1 sees rows 0 to 2 of other segments, wanted segments that see "
              "only their own rows");
  }
}

}  // namespace
}  // namespace packtrain::attention_segment_test

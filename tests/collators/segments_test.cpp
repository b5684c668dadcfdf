#include <gtest/gtest.h>

#include <vector>

#include "collators/batch_builder.h"
#include "collators/flattening.h"
#include "tests/collators/pieces.h"

namespace packtrain::segments_test {
namespace {

using test::Ints;
using test::MemoryStore;
using test::store_of;
using test::values;
using test::whole;

TEST(Segments, OfFlattenedExamplesAreSequences) {
  const MemoryStore store = store_of({3, 2});
  const PackedBatch batch = flatten(store, whole(store), {}, {.row_multiple = 4});
  EXPECT_TRUE(batch.segments().are_sequences());
  ASSERT_EQ(batch.segments().size(), 3);
  EXPECT_EQ(batch.segments()[1].rows, (RowRange{3, 5}));
  EXPECT_EQ(batch.segments()[2].rows, (RowRange{5, 8}));
}

TEST(Segments, WithAPrefixKeepItAndContinueItsPositions) {
  const MemoryStore store = store_of({3, 2, 4});
  const std::vector<RowRange> prompt = {{0, 3}};
  const std::vector<SegmentRun> runs = {{1, {0, 3}, {}}, {1, {3, 5}, prompt}, {1, {5, 9}, prompt}};
  const PackedBatch batch = build_batch(store, whole(store), runs, {}, {.row_multiple = 4}, {});
  EXPECT_EQ(values(batch.cu_seqlens), (Ints{0, 3, 5, 9, 12}));
  EXPECT_EQ(values(batch.position_ids), (Ints{0, 1, 2, 3, 4, 3, 4, 5, 6, 0, 1, 2}));
  EXPECT_EQ(batch.max_seqlen, 7);
  const AttentionSegments segments = batch.segments();
  EXPECT_TRUE(segments[0].is_sequence());
  EXPECT_EQ(segments[1].num_keys(), 5);
  EXPECT_EQ(segments[2].prefix.front(), prompt.front());
  EXPECT_TRUE(segments[3].is_sequence());
}

}  // namespace
}  // namespace packtrain::segments_test

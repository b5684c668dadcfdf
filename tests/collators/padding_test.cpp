#include "collators/padding.h"

#include <gtest/gtest.h>

#include "collators/collator.h"
#include "collators/flattening.h"
#include "tests/collators/pieces.h"
#include "tests/samplers/lengths.h"

namespace packtrain::padding_test {
namespace {

using test::Ints;
using test::MemoryStore;
using test::piece;
using test::store_of;
using test::values;
using test::whole;

constexpr std::int32_t N = kNoLabel;

TEST(Padding, PutsPadsAfterTheTokensOfEachSequence) {
  const MemoryStore store = store_of({3, 2, 4});
  const PackedBatch batch = pad_to_longest(store, whole(store), {}, {.row_multiple = 1});
  EXPECT_EQ(values(batch.input_ids), (Ints{0, 1, 2, 0, 100, 101, 0, 0, 200, 201, 202, 203}));
  EXPECT_EQ(values(batch.labels), (Ints{1, 2, N, N, 101, N, N, N, 201, 202, 203, N}));
  EXPECT_EQ(values(batch.position_ids), (Ints{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(values(batch.cu_seqlens), (Ints{0, 4, 8, 12}));
  EXPECT_EQ(values(batch.loss_index), (Ints{0, 1, 4, 8, 9, 10}));
  EXPECT_EQ(values(batch.examples), (Ints{0, 4, 8, 3, 6, 12}));
  EXPECT_EQ(batch.max_seqlen, 4);
  EXPECT_EQ(batch.num_real_tokens, 9);
  EXPECT_EQ(batch.pieces, whole(store));
}

TEST(Padding, RoundsRowsUpWithADummySequenceOfItsOwn) {
  const MemoryStore store = store_of({3, 2});
  const PackedBatch batch = pad_to_longest(store, whole(store), {}, {.row_multiple = 16});
  EXPECT_EQ(values(batch.cu_seqlens), (Ints{0, 3, 6, 16}));
  EXPECT_EQ(batch.max_seqlen, 10);
  EXPECT_EQ(values(pad_to_longest(store, {}, {}, {.row_multiple = 8}).cu_seqlens), (Ints{0, 8}));
}

TEST(Padding, SupervisesTheTokensOfFlatteningWithTheSameWeights) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto examples = test::draw_examples(seed, 1 + static_cast<std::int64_t>(seed), 100);
    const MemoryStore store = store_of(examples.lengths);
    const LossNormalization normalization{Normalize::kExamples, 7};
    const PackedBatch padded = pad_to_longest(store, whole(store), normalization);
    const PackedBatch flat = flatten(store, whole(store), normalization);
    EXPECT_EQ(values(padded.loss_weight), values(flat.loss_weight));
    ASSERT_EQ(padded.loss_index.size(), flat.loss_index.size());
    for (std::size_t i = 0; i < flat.loss_index.size(); ++i) {
      const auto row = static_cast<std::size_t>(padded.loss_index[i]);
      const auto other = static_cast<std::size_t>(flat.loss_index[i]);
      ASSERT_EQ(padded.input_ids[row], flat.input_ids[other]);
      ASSERT_EQ(padded.labels[row], flat.labels[other]);
      ASSERT_EQ(padded.position_ids[row], flat.position_ids[other]);
    }
    EXPECT_EQ(boundaries_from_position_ids(padded.position_ids), values(padded.cu_seqlens));
  }
}

TEST(Padding, WritesEveryRowOfDirtyMemory) {
  const MemoryStore store = store_of({3, 9, 2});
  std::vector<std::byte> memory(1 << 16, std::byte{0xff});
  const PackedBatch batch =
      pad_to_longest(store, whole(store), {}, {}, [&](std::size_t) { return std::span(memory); });
  const PackedBatch reference = pad_to_longest(store, whole(store), {});
  EXPECT_EQ(values(batch.input_ids), values(reference.input_ids));
  EXPECT_EQ(values(batch.labels), values(reference.labels));
  EXPECT_EQ(values(batch.position_ids), values(reference.position_ids));
}

TEST(Padding, KeepsTheLabelOfAPieceThatContinues) {
  const MemoryStore store = store_of({7});
  const PackedBatch batch =
      pad_to_longest(store, {piece(0, 0, 3, true), piece(0, 3, 4)}, {}, {.row_multiple = 1});
  EXPECT_EQ(values(batch.labels), (Ints{1, 2, 3, N, 4, 5, 6, N}));
}

TEST(Collator, OnlyPaddingPads) {
  EXPECT_EQ(find_collator(Strategy::kPadding), &pad_to_longest);
  EXPECT_EQ(find_collator(Strategy::kPaddingFree), &flatten);
  EXPECT_EQ(find_collator(Strategy::kBalanced), &flatten);
}

}  // namespace
}  // namespace packtrain::padding_test

#include "collators/flattening.h"

#include <gtest/gtest.h>

#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "samplers/planner.h"
#include "tests/collators/pieces.h"
#include "tests/samplers/lengths.h"
#include "tests/samplers/memory_store.h"

namespace packtrain::flattening_test {
namespace {

using test::Ints;
using test::MemoryStore;
using test::piece;
using test::store_of;
using test::values;
using test::whole;

constexpr std::int32_t N = kNoLabel;

// Rows not rounded up.
PackedBatch flatten_exactly(const MemoryStore& store, const MicroBatch& pieces,
                            const LossNormalization& normalization = {}) {
  return flatten(store, pieces, normalization, {.row_multiple = 1});
}

// The worked example of "Improving Hugging Face Training Efficiency Through Packing with Flash
// Attention 2" (Hugging Face blog, 2024): lengths 4, 8, 5, 11.
TEST(Flattening, LaysTheBlogsExampleEndToEnd) {
  const MemoryStore store = store_of({4, 8, 5, 11});
  const PackedBatch batch = flatten_exactly(store, whole(store));
  EXPECT_EQ(values(batch.cu_seqlens), (Ints{0, 4, 12, 17, 28}));
  EXPECT_EQ(batch.max_seqlen, 11);
  EXPECT_EQ(batch.num_real_tokens, 28);
  EXPECT_EQ(values(batch.position_ids), (Ints{0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1,
                                              2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(values(batch.input_ids),
            (Ints{0,   1,   2,   3,   100, 101, 102, 103, 104, 105, 106, 107, 200, 201,
                  202, 203, 204, 300, 301, 302, 303, 304, 305, 306, 307, 308, 309, 310}));
  EXPECT_EQ(batch.pieces, whole(store));
}

TEST(Flattening, ShiftsLabelsInsideEachExampleOnly) {
  const MemoryStore store = store_of({4, 8, 5, 11});
  const PackedBatch batch = flatten_exactly(store, whole(store));
  // The blog masks each example's first label; shifted, that is each example's last row.
  EXPECT_EQ(values(batch.labels),
            (Ints{1,   2,   3, N,   101, 102, 103, 104, 105, 106, 107, N,   201, 202,
                  203, 204, N, 301, 302, 303, 304, 305, 306, 307, 308, 309, 310, N}));
  EXPECT_EQ(batch.loss_index.size(), 24U);
  EXPECT_EQ(values(batch.loss_index.first(4)), (Ints{0, 1, 2, 4}));
}

TEST(Flattening, LabelsOnlySupervisedTokens) {
  const MemoryStore store({{.input_ids = {5, 6, 7, 8}, .loss_mask = {1, 0, 1, 1}},
                           {.input_ids = {9, 10}, .loss_mask = {1, 0}},
                           {.input_ids = {11}, .loss_mask = {1}}});
  const PackedBatch batch = flatten_exactly(store, whole(store));
  EXPECT_EQ(values(batch.labels), (Ints{N, 7, 8, N, N, N, N}));
  EXPECT_EQ(values(batch.loss_index), (Ints{1, 2}));
}

TEST(Flattening, BoundariesFromPositionIdsEqualThePlannedOnes) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto examples = test::draw_examples(seed, 1 + static_cast<std::int64_t>(seed), 100);
    const MemoryStore store = store_of(examples.lengths);
    const PackedBatch batch = flatten(store, whole(store), {}, {.row_multiple = 64});
    EXPECT_EQ(boundaries_from_position_ids(batch.position_ids), values(batch.cu_seqlens));
  }
}

TEST(BoundariesFromPositionIds, HandlesNoTokenAndRejectsAMissingStart) {
  EXPECT_EQ(boundaries_from_position_ids({}), (Ints{0}));
  EXPECT_THROW(boundaries_from_position_ids(Ints{1, 2, 0}), Error);
}

TEST(Flattening, RoundsRowsUpWithOneDummySequence) {
  const MemoryStore store = store_of({4, 8});
  const PackedBatch batch = flatten(store, whole(store), {}, {.row_multiple = 16});
  EXPECT_EQ(values(batch.cu_seqlens), (Ints{0, 4, 12, 16}));
  EXPECT_EQ(values(batch.position_ids.last(4)), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(values(batch.input_ids.last(4)), (Ints{0, 0, 0, 0}));
  EXPECT_EQ(values(batch.labels.last(4)), (Ints{N, N, N, N}));
  EXPECT_EQ(batch.num_real_tokens, 12);
  EXPECT_EQ(batch.pieces.size(), 2U);
  EXPECT_EQ(batch.loss_index.size(), 10U);
}

TEST(Flattening, AddsNoDummyWhereRowsAreAlreadyAMultiple) {
  const MemoryStore store = store_of({4, 12});
  const PackedBatch batch = flatten(store, whole(store), {}, {.row_multiple = 16});
  EXPECT_EQ(values(batch.cu_seqlens), (Ints{0, 4, 16}));
}

TEST(Flattening, MakesADummyOnlyBatchOfAnEmptyMicroBatch) {
  const MemoryStore store = store_of({4});
  const PackedBatch batch = flatten(store, {}, {}, {.row_multiple = 8});
  EXPECT_EQ(values(batch.cu_seqlens), (Ints{0, 8}));
  EXPECT_EQ(values(batch.position_ids), (Ints{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(batch.max_seqlen, 8);
  EXPECT_EQ(batch.num_real_tokens, 0);
  EXPECT_TRUE(batch.loss_index.empty());
  EXPECT_TRUE(batch.loss_weight.empty());
}

TEST(Flattening, KeepsTheLabelOfASplitPiecesLastToken) {
  const MemoryStore store = store_of({7});
  const PackedBatch batch =
      flatten_exactly(store, {piece(0, 0, 3, true), piece(0, 3, 2, true), piece(0, 5, 2)});
  EXPECT_EQ(values(batch.labels), (Ints{1, 2, 3, 4, 5, 6, N}));
  EXPECT_EQ(values(batch.position_ids), (Ints{0, 1, 2, 0, 1, 0, 1}));
  EXPECT_EQ(values(batch.cu_seqlens), (Ints{0, 3, 5, 7}));
}

TEST(Flattening, RunsPositionsOnOverJoinedPiecesButNoLabelCrosses) {
  const MemoryStore store = store_of({3, 4, 2});
  // Two rows of 5 tokens, attention across examples: example 1 is cut, example 2 begins a stranger.
  MicroBatch pieces = {piece(0, 0, 3), piece(1, 0, 2, true), piece(1, 2, 2), piece(2, 0, 2)};
  pieces[1].joined = pieces[3].joined = true;
  const PackedBatch batch = flatten(store, pieces, {}, {.row_multiple = 4});
  EXPECT_EQ(values(batch.input_ids), (Ints{0, 1, 2, 100, 101, 102, 103, 200, 201, 0, 0, 0}));
  EXPECT_EQ(values(batch.labels), (Ints{1, 2, N, 101, 102, 103, N, 201, N, N, N, N}));
  EXPECT_EQ(values(batch.position_ids), (Ints{0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 2}));
  EXPECT_EQ(values(batch.cu_seqlens), (Ints{0, 5, 9, 12}));
  EXPECT_EQ(boundaries_from_position_ids(batch.position_ids), values(batch.cu_seqlens));
  EXPECT_EQ(batch.max_seqlen, 5);
  // The same rows, examples apart: only boundaries and positions differ.
  pieces[1].joined = pieces[3].joined = false;
  const PackedBatch apart = flatten(store, pieces, {}, {.row_multiple = 4});
  EXPECT_EQ(values(apart.labels), values(batch.labels));
  EXPECT_EQ(values(apart.position_ids), (Ints{0, 1, 2, 0, 1, 0, 1, 0, 1, 0, 1, 2}));
  EXPECT_EQ(values(apart.cu_seqlens), (Ints{0, 3, 5, 7, 9, 12}));
}

TEST(Flattening, AStepWithoutALabelHasFiniteWeights) {
  const MemoryStore store = store_of({4}, false);
  const LossNormalization none{.mode = Normalize::kTokens, .denominator = 0};
  EXPECT_TRUE(flatten(store, whole(store), none).loss_weight.empty());
}

TEST(Flattening, GivesATruncatedExampleNoLabelBeyondTheCut) {
  const MemoryStore store = store_of({7});
  const PackedBatch batch = flatten_exactly(store, {piece(0, 0, 3)});
  EXPECT_EQ(values(batch.labels), (Ints{1, 2, N}));
  EXPECT_EQ(values(batch.input_ids), (Ints{0, 1, 2}));
}

TEST(Flattening, WeighsEachExampleTheSameUnderExamples) {
  const MemoryStore store = store_of({3, 6, 9});
  const LossNormalization normalization{Normalize::kExamples, 3};
  // Whole, truncated to 3 of 6 tokens (2 labels), split into 4 + 5 tokens.
  const PackedBatch batch = flatten_exactly(
      store, {piece(0, 0, 3), piece(1, 0, 3), piece(2, 0, 4, true), piece(2, 4, 5)}, normalization);
  ASSERT_EQ(batch.loss_weight.size(), 2U + 2U + 8U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(batch.loss_weight[i], 1.0F / 6);
  for (std::size_t i = 4; i < 12; ++i) EXPECT_FLOAT_EQ(batch.loss_weight[i], 1.0F / 24);
}

TEST(Flattening, WeightsSumToOneOverAStep) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto examples = test::draw_examples(seed, 40, 200);
    const MemoryStore store = store_of(examples.lengths);
    const StoreLossCounter counter(store);
    PlanOptions options = test::draw_options(seed, 200);
    options.too_long = seed % 2 == 0 ? TooLong::kTruncate : TooLong::kSplit;
    options.max_length = 50;
    const Planner planner(store.lengths(), store.num_loss_tokens(), counter, options);
    const StepPlan plan = planner.plan(0);
    for (const Normalize mode : {Normalize::kTokens, Normalize::kExamples}) {
      const LossNormalization normalization = loss_normalization(plan, mode);
      double sum = 0;
      std::int64_t num_loss_tokens = 0;
      for (const auto& rank : plan.ranks) {
        for (const MicroBatch& micro_batch : rank) {
          const PackedBatch batch = flatten(store, micro_batch, normalization);
          sum = std::accumulate(batch.loss_weight.begin(), batch.loss_weight.end(), sum);
          num_loss_tokens += std::ssize(batch.loss_weight);
        }
      }
      EXPECT_NEAR(sum, 1.0, 1e-5) << "seed " << seed;
      EXPECT_EQ(num_loss_tokens, plan.num_loss_tokens);
    }
  }
}

TEST(Flattening, RejectsAPieceOutsideItsExample) {
  const MemoryStore store = store_of({4});
  for (const Piece& wrong :
       {piece(0, -1, 2), piece(0, 0, 5), piece(0, 2, 3), piece(0, 0, 0), piece(0, 0, 4, true)}) {
    try {
      flatten_exactly(store, {wrong});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::kInternal);
      EXPECT_NE(error.message().find("example 0"), std::string::npos);
    }
  }
}

std::string message_of_change(MemoryStore& store, const MicroBatch& pieces) {
  try {
    flatten_exactly(store, pieces);
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kData);
    return error.message();
  }
  return "no error";
}

TEST(Flattening, NamesTheExampleWhoseFileWasWrittenTo) {
  const std::string was = "memory: example 1 was changed after the store was opened: ";
  MemoryStore store = store_of({4, 5});
  const std::int32_t bound = static_cast<std::int32_t>(store.info().vocab_size);
  const MemoryStore sound = store;
  store.example(1).input_ids[3] = bound;
  EXPECT_EQ(
      message_of_change(store, whole(store)),
      was + "token 3 has id " + std::to_string(bound) + ", wanted 0.." + std::to_string(bound - 1));
  store.example(1).input_ids[3] = -100;
  EXPECT_EQ(message_of_change(store, whole(store)), was + "its mask has other labels")
      << "the id that means no label";
  // The label of a piece's last token is the token after the piece.
  store.example(1).input_ids[3] = -7;
  EXPECT_NE(message_of_change(store, {piece(1, 0, 3, true)}).find("token 3 has id -7"),
            std::string::npos);
  store = sound;
  store.example(1).loss_mask[2] = 0;
  EXPECT_EQ(message_of_change(store, whole(store)), was + "its mask has 3 labels, wanted 4");
  store = sound;
  EXPECT_EQ(message_of_change(store, whole(store)), "no error");
}

TEST(Flattening, CountsTheLabelsOfEachPieceAndNamesTheirSourcesOnRequest) {
  const MemoryStore store = store_of({3, 6, 2});
  const MicroBatch pieces = {piece(1, 0, 4, true), piece(0, 0, 3), piece(1, 4, 2), piece(2, 0, 2)};
  const PackedBatch plain = flatten(store, pieces, {}, {.row_multiple = 16});
  EXPECT_EQ(plain.num_piece_labels, (Ints{4, 2, 1, 1}));
  EXPECT_TRUE(plain.loss_source.empty());
  const PackedBatch batch = flatten(store, pieces, {}, {.row_multiple = 16, .sources = true});
  EXPECT_EQ(values(batch.loss_source), (Ints{10, 10, 10, 10, 0, 0, 10, 20}));
}

TEST(Flattening, ReportsTheRowsOfEachPiece) {
  const MemoryStore store = store_of({3, 6, 2});
  const MicroBatch pieces = {piece(1, 0, 4, true), piece(0, 0, 3), piece(1, 4, 2), piece(2, 0, 2)};
  EXPECT_EQ(values(flatten(store, pieces, {}, {.row_multiple = 16}).examples),
            (Ints{0, 4, 7, 9, 4, 7, 9, 11}));
  EXPECT_TRUE(flatten(store, {}, {}, {.row_multiple = 16}).examples.empty());
}

TEST(Flattening, AFullyMaskedBatchHasNoSupervisedRow) {
  const MemoryStore store = store_of({4, 5}, false);
  const PackedBatch batch = flatten_exactly(store, whole(store));
  EXPECT_TRUE(batch.loss_index.empty());
  EXPECT_EQ(values(batch.labels), Ints(9, N));
}

}  // namespace
}  // namespace packtrain::flattening_test

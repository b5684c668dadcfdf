// Tests the weights of supervised rows when examples have loss weights.
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "collators/collator.h"
#include "tests/collators/pieces.h"
#include "tests/samplers/lengths.h"

namespace packtrain::loss_weights_test {
namespace {

using test::Ints;
using test::MemoryStore;
using test::store_of;

// {example, token in the example} of each supervised row of the step, and what it weighs.
using RowWeights = std::map<std::pair<std::int64_t, std::int32_t>, float>;

RowWeights row_weights(const MemoryStore& store, const PlanOptions& options, Normalize mode) {
  const StoreLossCounter counter(store);
  const Planner planner(store.lengths(), store.num_loss_tokens(), counter, options);
  const StepPlan plan = planner.plan(0);
  RowWeights weights;
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& micro_batch : micro_batches) {
      for (const Piece& piece : micro_batch) {
        const PackedBatch batch = find_collator(options.strategy)(
            store, {piece}, loss_normalization(plan, mode), {.row_multiple = 1}, {});
        for (std::size_t i = 0; i < batch.loss_index.size(); ++i) {
          weights[{piece.example, piece.begin + batch.loss_index[i]}] = batch.loss_weight[i];
        }
      }
    }
  }
  return weights;
}

// The first ten examples weigh `first`, the others `second`.
LossWeights two_weights(double first, double second) {
  return LossWeights({{0, first}, {10, second}});
}

TEST(LossWeights, SumToOneOverAStepOfAnyShape) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Ints lengths = test::draw_examples(seed, 30, 200).lengths;
    const MemoryStore store = store_of(lengths, true, two_weights(0.25, 3.0));
    for (const Normalize mode : {Normalize::kTokens, Normalize::kExamples}) {
      double sum = 0;
      for (const auto& [row, weight] : row_weights(store, test::draw_cut_options(seed), mode))
        sum += weight;
      EXPECT_NEAR(sum, 1.0, 1e-5) << "seed " << seed;
    }
  }
}

TEST(LossWeights, DoNotDependOnTheNumberOfRanks) {
  const MemoryStore store =
      store_of(test::draw_examples(1, 30, 200).lengths, true, two_weights(0.25, 3.0));
  for (const Normalize mode : {Normalize::kTokens, Normalize::kExamples}) {
    PlanOptions options = test::draw_cut_options(3);
    options.num_ranks = 1;
    const RowWeights one = row_weights(store, options, mode);
    options.num_ranks = 3;
    EXPECT_EQ(row_weights(store, options, mode), one);
  }
}

TEST(LossWeights, ActAsTheirRatio) {
  // Two examples of 4 and 8 labels, the second one's weighing 3 times as much.
  const MemoryStore store = store_of({5, 9}, true, LossWeights({{0, 2.0}, {1, 6.0}}));
  PlanOptions options;
  for (const auto& [row, weight] : row_weights(store, options, Normalize::kTokens)) {
    EXPECT_FLOAT_EQ(weight, (row.first == 0 ? 2.0F : 6.0F) / (4 * 2 + 8 * 6));
  }
  for (const auto& [row, weight] : row_weights(store, options, Normalize::kExamples)) {
    EXPECT_FLOAT_EQ(weight, row.first == 0 ? 2.0F / (8 * 4) : 6.0F / (8 * 8));
  }
}

TEST(LossWeights, ChangeNothingWhenAllAreDoubled) {
  const Ints lengths = test::draw_examples(2, 30, 200).lengths;
  for (const Normalize mode : {Normalize::kTokens, Normalize::kExamples}) {
    const RowWeights some = row_weights(store_of(lengths, true, two_weights(0.3, 0.7)),
                                        test::draw_cut_options(4), mode);
    EXPECT_EQ(row_weights(store_of(lengths, true, two_weights(0.6, 1.4)), test::draw_cut_options(4),
                          mode),
              some);
    const RowWeights none = row_weights(store_of(lengths), test::draw_cut_options(4), mode);
    EXPECT_NE(none, some);
    EXPECT_EQ(row_weights(store_of(lengths, true, two_weights(1.0, 1.0)), test::draw_cut_options(4),
                          mode),
              none);
  }
}

}  // namespace
}  // namespace packtrain::loss_weights_test

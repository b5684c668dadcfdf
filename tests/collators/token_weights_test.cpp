// Tests the weight of a supervised row whose mask byte has a weight.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "collators/collator.h"
#include "collators/flattening.h"
#include "framework/core/error.h"
#include "framework/core/random.h"
#include "samplers/evaluation_plan.h"
#include "tests/collators/pieces.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/samplers/lengths.h"

namespace packtrain::token_weights_test {
namespace {

using test::Ints;
using test::MemoryExample;
using test::MemoryStore;

const std::vector<double> kTable{0, 1, 0.5, 0.25, 0.01};

// {example, token in the example} of each supervised row of the step, and what it weighs.
using RowWeights = std::map<std::pair<std::int64_t, std::int32_t>, float>;

// Mask bytes are drawn below `num_bytes`; the last token of each example has a label.
std::vector<MemoryExample> draw_masks(const Ints& lengths, std::uint64_t num_bytes) {
  std::vector<MemoryExample> examples;
  for (const std::int32_t length : lengths) {
    const CounterRandom random(7, "masks", examples.size());
    MemoryExample example;
    for (std::int32_t t = 0; t < length; ++t) {
      example.input_ids.push_back(t % 50);
      example.loss_mask.push_back(
          static_cast<std::uint8_t>(random.below(static_cast<std::uint64_t>(t), num_bytes)));
    }
    example.loss_mask.back() = 1;
    examples.push_back(std::move(example));
  }
  return examples;
}

RowWeights row_weights(const MemoryStore& store, const PlanOptions& options, Normalize mode,
                       bool one_by_one = true) {
  const StoreLossCounter counter(store);
  const Planner planner(store.lengths(), store.num_loss_tokens(), counter, options);
  const StepPlan plan = planner.plan(0);
  RowWeights weights;
  const auto collect = [&](const MicroBatch& pieces) {
    const PackedBatch batch = find_collator(options.strategy)(
        store, pieces, loss_normalization(plan, mode), {.row_multiple = 1}, {});
    std::size_t next = 0;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      for (std::int32_t n = 0; n < batch.num_piece_labels[p]; ++n, ++next) {
        const std::int32_t row = batch.loss_index[next] - batch.examples[p];
        weights[{pieces[p].example, pieces[p].begin + row}] = batch.loss_weight[next];
      }
    }
  };
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& micro_batch : micro_batches) {
      if (!one_by_one) collect(micro_batch);
      for (const Piece& piece : micro_batch) {
        if (one_by_one) collect({piece});
      }
    }
  }
  return weights;
}

constexpr std::array kModes = {Normalize::kTokens, Normalize::kExamples};

TEST(TokenWeights, ActAsTheirRatio) {
  // The first example's labels weigh 1, 0.5 and 0.25, the second one's 0.25; the store's own
  // weights are 2 and 6.
  const MemoryStore store({{{1, 2, 3, 4, 5}, {1, 1, 2, 0, 3}}, {{6, 7}, {0, 3}}},
                          LossWeights({{0, 2.0}, {1, 6.0}}), kTable);
  EXPECT_EQ(store.num_loss_tokens()[0], 3);
  const double tokens = 2 * 1.75 + 6 * 0.25;
  const auto share = [&](double weight) { return static_cast<float>(weight / tokens); };
  RowWeights wanted{{{0, 0}, share(2 * 1)},
                    {{0, 1}, share(2 * 0.5)},
                    {{0, 3}, share(2 * 0.25)},
                    {{1, 0}, share(6 * 0.25)}};
  EXPECT_EQ(row_weights(store, {}, Normalize::kTokens), wanted);
  wanted = {{{0, 0}, 2.0 / 8 * 1 / 1.75},
            {{0, 1}, 2.0 / 8 * 0.5 / 1.75},
            {{0, 3}, 2.0 / 8 * 0.25 / 1.75},
            {{1, 0}, 6.0 / 8}};
  for (const auto& [row, weight] : row_weights(store, {}, Normalize::kExamples)) {
    EXPECT_FLOAT_EQ(weight, wanted.at(row)) << row.first << ", " << row.second;
  }
}

// Each piece is read once, and the document once more: 100 pieces do not read it 100 times.
TEST(TokenWeights, OfADocumentInPiecesAreSummedOnce) {
  constexpr std::int32_t kNumPieces = 100;
  const MemoryStore store(draw_masks({7 * kNumPieces}, 5), {}, kTable);
  const LossNormalization by_examples{Normalize::kExamples, 3.0};
  MicroBatch pieces;
  for (std::int32_t p = 0; p < kNumPieces; ++p) {
    pieces.push_back({.example = 0, .begin = 7 * p, .length = 7, .continues = p + 1 < kNumPieces});
  }
  std::int64_t before = store.num_masks_asked();
  const PackedBatch together = flatten(store, pieces, by_examples, {.row_multiple = 1}, {});
  EXPECT_EQ(store.num_masks_asked() - before, kNumPieces + 1);

  LabelWeights kept;
  const CollatorOptions options{.row_multiple = 1, .label_weights = &kept};
  before = store.num_masks_asked();
  std::vector<float> apart;
  for (const Piece& piece : pieces) {
    const PackedBatch batch = flatten(store, {piece}, by_examples, options, {});
    apart.insert(apart.end(), batch.loss_weight.begin(), batch.loss_weight.end());
  }
  EXPECT_EQ(store.num_masks_asked() - before, kNumPieces + 1);

  std::vector<float> wanted;
  const auto mask = store.loss_mask(0);
  const double all = 3.0 * sum_of_weights(mask.subspan(1), kTable);
  for (const std::uint8_t byte : mask.subspan(1)) {
    if (byte != 0) wanted.push_back(static_cast<float>(1.0 / all * kTable[byte]));
  }
  EXPECT_EQ(std::vector<float>(together.loss_weight.begin(), together.loss_weight.end()), wanted);
  EXPECT_EQ(apart, wanted);
}

TEST(TokenWeights, SumToOneOverAStepOfAnyShape) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Ints lengths = test::draw_examples(seed, 30, 200).lengths;
    for (const LossWeights& of_stores : {LossWeights(), LossWeights({{0, 0.25}, {10, 3.0}})}) {
      const MemoryStore store(draw_masks(lengths, 5), of_stores, kTable);
      for (const Normalize mode : kModes) {
        double sum = 0;
        for (const auto& [row, weight] : row_weights(store, test::draw_cut_options(seed), mode))
          sum += weight;
        EXPECT_NEAR(sum, 1.0, 1e-5) << "seed " << seed;
      }
    }
  }
}

TEST(TokenWeights, DoNotDependOnRanksOrOnWhatAnExampleIsPackedWith) {
  const MemoryStore store(draw_masks(test::draw_examples(1, 30, 200).lengths, 5), {}, kTable);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const Normalize mode : kModes) {
      PlanOptions options = test::draw_cut_options(seed);
      options.num_ranks = 1;
      const RowWeights one = row_weights(store, options, mode);
      EXPECT_EQ(row_weights(store, options, mode, /*one_by_one=*/false), one) << "seed " << seed;
      options.num_ranks = 3;
      EXPECT_EQ(row_weights(store, options, mode), one) << "seed " << seed;
    }
  }
}

TEST(TokenWeights, OfZeroAndOneAreNone) {
  const Ints lengths = test::draw_examples(2, 30, 200).lengths;
  const LossWeights of_stores({{0, 0.3}, {10, 0.7}});
  for (const auto& loss_weights : {LossWeights(), of_stores}) {
    const MemoryStore plain(draw_masks(lengths, 2), loss_weights);
    for (const std::vector<double>& table : {std::vector<double>{0, 1}, kTable}) {
      const MemoryStore weighted(draw_masks(lengths, 2), loss_weights, table);
      for (const Normalize mode : kModes) {
        EXPECT_EQ(row_weights(weighted, test::draw_cut_options(4), mode),
                  row_weights(plain, test::draw_cut_options(4), mode));
      }
    }
  }
}

TEST(TokenWeights, AreInTheBatchOnlyWhereThereIsATable) {
  const MemoryStore plain({{{1, 2, 3}, {0, 1, 1}}});
  const MemoryStore weighted({{{1, 2, 3}, {0, 3, 1}}}, {}, kTable);
  const auto batch_of = [](const MemoryStore& store) { return flatten(store, whole(store), {}); };
  EXPECT_TRUE(batch_of(plain).token_weight.empty());
  EXPECT_EQ(test::values(batch_of(weighted).token_weight), (std::vector<float>{0.25F, 1}));
}

TEST(TokenWeights, AreTheDenominatorOfAnEvaluation) {
  const MemoryStore store({{{1, 2, 3}, {1, 3, 1}}, {{4, 5}, {1, 2}}}, {}, kTable);
  const StoreLossCounter counter(store);
  const StepPlan plan = plan_evaluation(store.lengths(), store.num_loss_tokens(), 100, 2, &counter);
  EXPECT_EQ(plan.num_loss_tokens, 3);
  EXPECT_EQ(plan.loss_token_weight, 1.75);
}

TEST(TokenWeights, AMaskByteThatCameLaterAndHasNoWeightIsAnError) {
  MemoryStore store({{{1, 2, 3}, {0, 3, 1}}}, {}, kTable);
  store.example(0).loss_mask[1] = 9;
  const Error error = test::error_of([&] { flatten(store, whole(store), {}); });
  EXPECT_EQ(error.category(), ErrorCategory::kData);
  EXPECT_NE(error.message().find("its mask has a 9, and the store has weights for 0..4"),
            std::string::npos)
      << error.message();
}

}  // namespace
}  // namespace packtrain::token_weights_test

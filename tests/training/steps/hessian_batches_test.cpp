// The batches of a Hessian estimate: when they are due, their weights, and their sampled labels.
#include "training/steps/hessian_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "samplers/loss_counter.h"
#include "tests/samplers/memory_store.h"

namespace packtrain::hessian_batches_test {
namespace {

using Token = std::pair<std::int64_t, std::int64_t>;  // example and position

test::MemoryStore store_with(LossWeights weights = {}) {
  std::vector<test::MemoryExample> examples;
  for (std::int32_t e = 0; e < 40; ++e) {
    const auto length = static_cast<std::size_t>(2 + e % 7);
    std::vector<std::uint8_t> mask(length, 1);
    if (length > 3) mask[2] = 0;
    examples.push_back({std::vector<std::int32_t>(length, e), std::move(mask)});
  }
  return test::MemoryStore(std::move(examples), std::move(weights));
}

struct Label {
  std::int64_t seed = 0;
  float weight = 0;
};

// All labels of a step's Hessian batches over `num_ranks` ranks.
struct Collected {
  double num_tokens = 0;
  std::map<Token, Label> labels;
};

Collected collect(const TokenStore& store, int num_ranks, std::int64_t budget, Strategy strategy,
                  std::int64_t step = 2, Normalize normalize = Normalize::kTokens) {
  const StoreLossCounter counter(store);
  PlanOptions options;
  options.strategy = strategy;
  options.global_batch_size = 16;
  options.micro_batch_size = 2;
  options.max_tokens_per_micro_batch = budget;
  options.num_ranks = num_ranks;
  const Planner planner(store.lengths(), store.num_loss_tokens(), counter, options);
  Collected result;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto batches = hessian_batches(
        store, planner, step,
        {.settings = {.share = 0.5, .seed = 9}, .rank = rank, .normalize = normalize}, nullptr);
    result.num_tokens = batches->num_tokens;
    for (const PackedBatch& batch : batches->micro_batches) {
      std::size_t next = 0;
      for (std::size_t p = 0; p < batch.pieces.size(); ++p) {
        for (std::int32_t k = 0; k < batch.num_piece_labels[p]; ++k, ++next) {
          const std::int64_t position =
              batch.pieces[p].begin + batch.loss_index[next] - batch.examples[p];
          result.labels[{batch.pieces[p].example, position}] = {batch.sample_seeds[next],
                                                                batch.loss_weight[next]};
        }
      }
    }
  }
  return result;
}

TEST(HessianBatches, HaveTheSameSeedsAndWeightsInAnyPackingAndOnAnyNumberOfRanks) {
  const test::MemoryStore store = store_with();
  const Collected wanted = collect(store, 1, 1000, Strategy::kBalanced);
  EXPECT_EQ(static_cast<double>(wanted.labels.size()), wanted.num_tokens);
  for (const auto& [ranks, budget, strategy] : {std::tuple{1, 20, Strategy::kBalanced},
                                                {3, 1000, Strategy::kBalanced},
                                                {4, 20, Strategy::kBalanced},
                                                {2, 1000, Strategy::kPadding},
                                                {2, 1000, Strategy::kPaddingFree}}) {
    const Collected found = collect(store, ranks, budget, strategy);
    ASSERT_EQ(found.labels.size(), wanted.labels.size());
    for (const auto& [token, label] : wanted.labels) {
      ASSERT_TRUE(found.labels.contains(token));
      EXPECT_EQ(found.labels.at(token).seed, label.seed);
      EXPECT_EQ(found.labels.at(token).weight, label.weight);
    }
  }
}

TEST(HessianBatches, HaveOtherSeedsForEachTokenAndInEachStep) {
  const test::MemoryStore store = store_with();
  std::map<std::int64_t, int> times;
  // The second one is in another epoch, so that examples come again.
  for (const std::int64_t step : {0, 1, 2, 3, 4, 5}) {
    const Collected found = collect(store, 1, 1000, Strategy::kBalanced, step);
    for (const auto& [token, label] : found.labels) ++times[label.seed];
  }
  EXPECT_GT(times.size(), 50U);
  for (const auto& [seed, count] : times) EXPECT_EQ(count, 1) << seed;
}

TEST(HessianBatches, WeightEachLabelByTheMeanWhereAllAreEqual) {
  const Collected found = collect(store_with(), 2, 1000, Strategy::kBalanced);
  for (const auto& [token, label] : found.labels) {
    EXPECT_NEAR(label.weight * found.num_tokens, 1, 1e-6);
  }
}

// The squared weights times B are the weights of the loss, whose sum is 1.
TEST(HessianBatches, HaveSquaredWeightsOfTheLoss) {
  const LossWeights weights({{0, 1.0}, {20, 4.0}});
  for (const Normalize normalize : {Normalize::kTokens, Normalize::kExamples}) {
    const Collected found =
        collect(store_with(weights), 1, 1000, Strategy::kBalanced, 2, normalize);
    double sum = 0;
    std::map<std::int64_t, double> of_example;
    for (const auto& [token, label] : found.labels) {
      const double square = label.weight * label.weight * found.num_tokens;
      sum += square;
      of_example[token.first] += square;
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    if (normalize == Normalize::kTokens) continue;
    double least = 1;
    double most = 0;
    for (const auto& [example, weight] : of_example) {
      least = std::min(least, weight);
      most = std::max(most, weight);
    }
    EXPECT_NEAR(most / least, 4, 1e-4);
  }
}

TEST(HessianSettings, AreThoseOfTheConfigurationAndOfSophiaAlone) {
  Config config;
  EXPECT_FALSE(hessian_settings(config));
  config.optimizer.name = "sophia";
  config.optimizer.hessian_every = 4;
  config.optimizer.hessian_share = 0.25;
  config.run.seed = 8;
  const HessianSettings settings = hessian_settings(config).value();
  EXPECT_EQ(settings.every, 4);
  EXPECT_EQ(settings.share, 0.25);
  EXPECT_EQ(settings.seed, 8U);
  EXPECT_TRUE(hessian_is_due(settings, 0));
  EXPECT_FALSE(hessian_is_due(settings, 3));
  EXPECT_TRUE(hessian_is_due(settings, 4));
}

}  // namespace
}  // namespace packtrain::hessian_batches_test

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "framework/core/error.h"
#include "samplers/planner.h"
#include "tests/samplers/lengths.h"

namespace packtrain::split_test {
namespace {

constexpr std::int32_t kLongest = 600;
constexpr std::int32_t kMaxLength = 70;  // most draws have longer examples
const test::EveryTokenCounts kCounter;

PlanOptions split_options(std::uint64_t seed) {
  PlanOptions options = test::draw_options(seed, kMaxLength);
  options.too_long = TooLong::kSplit;
  return options;
}

// Pieces of a step by example, in order of their first token.
std::map<std::int64_t, std::vector<Piece>> pieces_of(const StepPlan& plan) {
  std::map<std::int64_t, std::vector<Piece>> pieces;
  for (const auto& rank : plan.ranks) {
    for (const MicroBatch& micro_batch : rank) {
      for (const Piece& piece : micro_batch) pieces[piece.example].push_back(piece);
    }
  }
  for (auto& [example, list] : pieces) std::ranges::sort(list, {}, &Piece::begin);
  return pieces;
}

TEST(Split, PiecesOfAnExampleCoverItOnceWithinOneStep) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const test::Examples examples =
        test::draw_examples(seed, 1 + static_cast<std::int64_t>(seed % 90), kLongest);
    const PlanOptions options = split_options(seed);
    const Planner planner(examples.lengths, examples.num_loss_tokens, kCounter, options);
    std::size_t num_examples = 0;
    for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
      const StepPlan plan = planner.plan(step);
      for (const auto& [example, pieces] : pieces_of(plan)) {
        std::int32_t next = 0;
        for (const Piece& piece : pieces) {
          ASSERT_EQ(piece.begin, next);
          ASSERT_LE(piece.length, kMaxLength);
          ASSERT_EQ(piece.continues, &piece != &pieces.back());
          next += piece.length;
        }
        ASSERT_EQ(next, examples.lengths[static_cast<std::size_t>(example)]) << "seed " << seed;
        ++num_examples;
      }
    }
    EXPECT_EQ(num_examples, examples.lengths.size());  // each in one step only
  }
}

TEST(Split, ChangesNeitherCountsNorBudgetNorTheStepsExamples) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const test::Examples examples =
        test::draw_examples(seed, 1 + static_cast<std::int64_t>(seed % 90), kLongest);
    const PlanOptions options = split_options(seed);
    PlanOptions whole_options = options;
    whole_options.strategy = Strategy::kBalanced;
    whole_options.max_length = kLongest;
    whole_options.max_tokens_per_micro_batch = kLongest;
    const Planner split(examples.lengths, examples.num_loss_tokens, kCounter, options);
    const Planner whole(examples.lengths, examples.num_loss_tokens, kCounter, whole_options);
    ASSERT_EQ(split.num_steps(1), whole.num_steps(1));
    for (std::int64_t step = 0; step < split.num_steps(1); ++step) {
      const StepPlan plan = split.plan(step);
      const StepPlan reference = whole.plan(step);
      EXPECT_EQ(plan.num_examples, reference.num_examples);
      EXPECT_EQ(plan.num_tokens, reference.num_tokens);
      EXPECT_EQ(plan.num_loss_tokens, reference.num_loss_tokens);
      std::vector<std::int64_t> found = test::examples_in(plan);
      found.erase(std::ranges::unique(found).begin(), found.end());
      EXPECT_EQ(found, test::examples_in(reference));
      for (const auto& rank : plan.ranks) {
        ASSERT_EQ(std::ssize(rank), plan.num_micro_batches());
        for (const MicroBatch& pieces : rank) {
          EXPECT_LE(test::rows_in(pieces, options.strategy), options.max_tokens_per_micro_batch);
        }
      }
    }
  }
}

TEST(Split, PiecesOfOneExampleCountForTheFullestMicroBatch) {
  const test::Examples examples = test::examples_of({25, 3});
  for (const Strategy strategy : {Strategy::kPadding, Strategy::kPaddingFree}) {
    PlanOptions options;
    options.strategy = strategy;
    options.too_long = TooLong::kSplit;
    options.max_length = 10;
    options.global_batch_size = 1;
    options.micro_batch_size = 3;  // 10 + 10 + 5 tokens, 3 rows of 10 when padded
    const std::int64_t fullest = strategy == Strategy::kPadding ? 30 : 25;
    options.max_tokens_per_micro_batch = fullest;
    EXPECT_NO_THROW(Planner(examples.lengths, examples.num_loss_tokens, kCounter, options));
    options.max_tokens_per_micro_batch = fullest - 1;
    EXPECT_THROW(Planner(examples.lengths, examples.num_loss_tokens, kCounter, options), Error);
  }
}

}  // namespace
}  // namespace packtrain::split_test

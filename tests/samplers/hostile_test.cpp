// With any lengths and options, a plan keeps its guarantees or there is a clear error.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/random.h"
#include "samplers/planner.h"
#include "samplers/selection.h"
#include "samplers/strategies/strategy.h"
#include "tests/samplers/lengths.h"

namespace packtrain::hostile_test {
namespace {

using test::EveryTokenCounts;
using test::Examples;

constexpr std::uint64_t kNumDraws = 3000;
constexpr std::int32_t kHuge = (1 << 30) + 12345;
const EveryTokenCounts kCounter;

// Draws extreme stores: no example, one example, empty or fully masked ones, equal ones, one longer
// than all others together, lengths near 2^30.
Examples draw_store(const CounterRandom& random) {
  constexpr std::array<std::uint64_t, 6> kSizes = {0, 1, 2, 3, 17, 120};
  const std::uint64_t size = kSizes[random.below(0, kSizes.size())];
  const std::uint64_t kind = random.below(1, 6);
  Examples store;
  for (std::uint64_t e = 0; e < size; ++e) {
    std::int32_t length = 1 + static_cast<std::int32_t>(random.below(100 + e, 200));
    if (kind == 0) length = 50;
    if (kind == 1 && e == 0) length = 100'000;
    if (kind == 2 && e < 3) length = kHuge;
    if (kind == 3 && e % 2 == 0) length = 0;
    const bool masked = kind == 4 && e % 2 == 0;
    store.lengths.push_back(length);
    store.num_loss_tokens.push_back(masked ? 0 : std::max(length - 1, 0));
  }
  return store;
}

// Also budgets below the longest example, batches beyond the store, ranks that divide nothing.
PlanOptions draw_options(const CounterRandom& random) {
  PlanOptions options;
  options.strategy = kStrategyTraits[random.below(10, kStrategyTraits.size())].strategy;
  // A plan file is for one store: file_plan_test.cpp and plan_file_test.cpp have its faults.
  if (traits_of(options.strategy).has_plan_file) options.strategy = kDefaultStrategy;
  options.order = random.below(11, 2) == 0 ? OrderKind::kSequential : OrderKind::kRandom;
  options.too_long = static_cast<TooLong>(random.below(12, 4));
  constexpr std::array<std::int64_t, 5> kLengths = {1, 64, 200, 100'000, 0x7fffffff};
  options.max_length = kLengths[random.below(13, kLengths.size())];
  constexpr std::array<std::int64_t, 6> kBudgets = {1, 64, 250, 4096, 200'000, 0x7fffffff};
  options.max_tokens_per_micro_batch = kBudgets[random.below(14, kBudgets.size())];
  options.micro_batch_size = 1 + static_cast<std::int64_t>(random.below(15, 40));
  if (traits_of(options.strategy).makes_own_steps || random.below(16, 2) == 0) {
    constexpr std::array<std::int64_t, 5> kBatches = {1, 64, 4096, 1'000'000,
                                                      std::int64_t{1} << 40};
    options.global_batch_size = 0;
    options.global_batch_tokens = kBatches[random.below(17, kBatches.size())];
  } else {
    constexpr std::array<std::int64_t, 4> kBatches = {1, 7, 64, 1'000'000};
    options.global_batch_size = kBatches[random.below(17, kBatches.size())];
  }
  constexpr std::array kRanks = {1, 2, 7, 64, 513};
  options.num_ranks = kRanks[random.below(18, kRanks.size())];
  options.seed = random.bits(19);
  options.cost.quadratic = random.uniform(20);
  return options;
}

// No real run cuts a very long example into tiny pieces, and each piece takes memory.
bool makes_too_many_pieces(const Examples& store, const PlanOptions& options) {
  if (!traits_of(options.strategy).has_rows && options.too_long != TooLong::kSplit) return false;
  std::int64_t num_pieces = 0;
  for (const std::int32_t length : store.lengths) num_pieces += length / options.max_length;
  return num_pieces > 2'000;
}

void expect_promises(const Planner& planner, const Selection& selection, std::uint64_t seed) {
  const PlanOptions& options = planner.options();
  std::map<std::int64_t, std::vector<Piece>> pieces;
  StepPlan sums;
  for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
    const StepPlan plan = planner.plan(step);
    ASSERT_EQ(std::ssize(plan.ranks), options.num_ranks) << "seed " << seed;
    sums.num_examples += plan.num_examples;
    sums.num_tokens += plan.num_tokens;
    sums.num_loss_tokens += plan.num_loss_tokens;
    for (const auto& rank : plan.ranks) {
      ASSERT_EQ(std::ssize(rank), plan.num_micro_batches()) << "seed " << seed;
      for (const MicroBatch& micro_batch : rank) {
        ASSERT_LE(test::rows_in(micro_batch, options.strategy), options.max_tokens_per_micro_batch)
            << "seed " << seed;
        for (const Piece& piece : micro_batch) pieces[piece.example].push_back(piece);
      }
    }
  }
  std::int64_t num_tokens = 0;
  std::int64_t num_loss_tokens = 0;
  ASSERT_EQ(pieces.size(), selection.examples().size()) << "seed " << seed;
  for (auto& [example, of_example] : pieces) {
    std::ranges::sort(of_example, {}, &Piece::begin);
    std::int64_t end = 0;
    for (const Piece& piece : of_example) {
      ASSERT_EQ(piece.begin, end) << "seed " << seed;
      ASSERT_GT(piece.length, 0) << "seed " << seed;
      end += piece.length;
      ASSERT_EQ(piece.continues, &piece != &of_example.back()) << "seed " << seed;
    }
    const auto index = static_cast<ExampleIndex>(example);
    ASSERT_EQ(end, selection.length(index)) << "seed " << seed;
    num_tokens += end;
    num_loss_tokens += selection.num_loss_tokens(index);
  }
  EXPECT_EQ(sums.num_examples, std::ssize(selection.examples())) << "seed " << seed;
  EXPECT_EQ(sums.num_tokens, num_tokens) << "seed " << seed;
  EXPECT_EQ(sums.num_loss_tokens, num_loss_tokens) << "seed " << seed;
}

TEST(HostileInput, IsPlannedRightOrRefusedClearly) {
  int num_planned = 0;
  int num_refused = 0;
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const CounterRandom random(seed, "hostile input");
    const Examples store = draw_store(random);
    const PlanOptions options = draw_options(random);
    if (makes_too_many_pieces(store, options)) continue;
    try {
      const Planner planner(store.lengths, store.num_loss_tokens, kCounter, options);
      const TooLong too_long =
          traits_of(options.strategy).has_rows && options.too_long == TooLong::kError
              ? TooLong::kSplit
              : options.too_long;
      const Selection selection(store.lengths, store.num_loss_tokens, kCounter, too_long,
                                options.max_length);
      expect_promises(planner, selection, seed);
      ++num_planned;
    } catch (const Error& error) {
      EXPECT_TRUE(error.category() == ErrorCategory::kConfig ||
                  error.category() == ErrorCategory::kData)
          << "seed " << seed << ": " << error.what();
      EXPECT_FALSE(error.advice().empty()) << "seed " << seed << ": " << error.what();
      ++num_refused;
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(num_planned, static_cast<int>(kNumDraws / 10));
  EXPECT_GT(num_refused, static_cast<int>(kNumDraws / 10));
}

}  // namespace
}  // namespace packtrain::hostile_test

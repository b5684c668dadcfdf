#include "samplers/batches/rows.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "samplers/planner.h"
#include "samplers/statistics.h"
#include "tests/samplers/lengths.h"

namespace packtrain::rows_test {
namespace {

constexpr std::int32_t kLongest = 600;
const test::EveryTokenCounts kCounter;

Planner planner_for(const test::Examples& examples, const PlanOptions& options) {
  return {examples.lengths, examples.num_loss_tokens, kCounter, options};
}

PlanOptions row_options(std::int64_t max_length, std::int64_t rows_per_step) {
  PlanOptions options;
  options.strategy = Strategy::kFixedLength;
  options.order = OrderKind::kSequential;
  options.max_length = max_length;
  options.global_batch_size = 0;
  options.global_batch_tokens = rows_per_step * max_length;
  options.max_tokens_per_micro_batch = max_length;
  return options;
}

PlanOptions draw_row_options(std::uint64_t seed) {
  const CounterRandom random(seed, "row options");
  const auto max_length = static_cast<std::int64_t>(1 + random.below(0, 200));
  PlanOptions options = row_options(max_length, static_cast<std::int64_t>(1 + random.below(1, 20)));
  options.order = random.below(2, 2) == 0 ? OrderKind::kSequential : OrderKind::kRandom;
  options.max_tokens_per_micro_batch += static_cast<std::int64_t>(random.below(3, 700));
  options.num_ranks = 1 + static_cast<int>(random.below(4, 9));
  options.too_long = std::array{TooLong::kError, TooLong::kSplit, TooLong::kTruncate,
                                TooLong::kDrop}[random.below(5, 4)];
  options.cross_example_attention = random.below(6, 2) == 0;
  options.seed = seed;
  return options;
}

test::Examples draw(std::uint64_t seed) {
  return test::draw_examples(seed, 1 + static_cast<std::int64_t>(seed % 70), kLongest);
}

// All pieces of a step; those of a row stay together and in order.
std::vector<Piece> pieces_in(const StepPlan& plan) {
  std::vector<Piece> pieces;
  for (const auto& rank : plan.ranks) {
    for (const MicroBatch& micro_batch : rank) {
      pieces.insert(pieces.end(), micro_batch.begin(), micro_batch.end());
    }
  }
  return pieces;
}

Piece piece(std::int64_t example, std::int32_t begin, std::int32_t length, bool continues = false,
            bool joined = false) {
  return {example, begin, length, continues, joined};
}

TEST(Rows, CutTheStreamOfExamplesAtEveryRow) {
  const test::Examples examples = test::examples_of({3, 10, 2, 4});
  const Planner planner = planner_for(examples, row_options(5, 2));
  ASSERT_EQ(planner.num_steps(1), 2);
  const StepPlan first = planner.plan(0);
  ASSERT_EQ(first.num_micro_batches(), 2);
  EXPECT_EQ(first.ranks[0][0], (MicroBatch{piece(0, 0, 3), piece(1, 0, 2, true)}));
  EXPECT_EQ(first.ranks[0][1], (MicroBatch{piece(1, 2, 5, true)}));
  EXPECT_EQ(first.num_examples, 2);
  const StepPlan last = planner.plan(1);
  EXPECT_EQ(pieces_in(last), (MicroBatch{piece(1, 7, 3), piece(2, 0, 2), piece(3, 0, 4)}));
  EXPECT_EQ(last.num_examples, 2);  // example 1 was counted where it began
}

TEST(Rows, AreOneSequenceUnderCrossExampleAttention) {
  PlanOptions options = row_options(5, 4);
  options.cross_example_attention = true;
  options.max_tokens_per_micro_batch = 20;
  const test::Examples examples = test::examples_of({3, 10, 2, 4});
  const StepPlan plan = planner_for(examples, options).plan(0);
  EXPECT_EQ(plan.ranks[0][0],
            (MicroBatch{piece(0, 0, 3), piece(1, 0, 2, true, true), piece(1, 2, 5, true),
                        piece(1, 7, 3), piece(2, 0, 2, false, true), piece(3, 0, 4)}));
  // Attention is paid for whole rows.
  const CostModel attention{.linear = 0, .quadratic = 1, .constant = 0};
  std::vector<std::int32_t> lengths;
  for_each_segment(plan.ranks[0][0], [&](std::span<const Piece>, const AttentionSegment& segment) {
    lengths.push_back(static_cast<std::int32_t>(segment.rows.size()));
  });
  EXPECT_EQ(lengths, (std::vector<std::int32_t>{5, 5, 5, 4}));
  EXPECT_EQ(plan_statistics(plan, attention, 20, 1).cost_imbalance, 1.0);
}

// What an epoch must hold of each example.
std::map<std::int64_t, std::int32_t> expected_tokens(const test::Examples& examples,
                                                     const PlanOptions& options) {
  std::map<std::int64_t, std::int32_t> tokens;
  for (std::size_t e = 0; e < examples.lengths.size(); ++e) {
    const bool is_too_long = examples.lengths[e] > options.max_length;
    if (is_too_long && options.too_long == TooLong::kDrop) continue;
    const bool is_cut = is_too_long && options.too_long == TooLong::kTruncate;
    const auto length =
        is_cut ? static_cast<std::int32_t>(options.max_length) : examples.lengths[e];
    if (length > 1) tokens[static_cast<std::int64_t>(e)] = length;  // else no label is left
  }
  return tokens;
}

TEST(Rows, HoldEveryTokenAndLabelExactlyOnceAnEpoch) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const test::Examples examples = draw(seed);
    const PlanOptions options = draw_row_options(seed);
    const std::map<std::int64_t, std::int32_t> lengths = expected_tokens(examples, options);
    if (lengths.empty()) {
      EXPECT_THROW(planner_for(examples, options), Error);
      continue;
    }
    const Planner planner = planner_for(examples, options);
    std::int64_t num_labels = 0;
    std::int64_t counted_labels = 0;
    std::int64_t counted_examples = 0;
    std::map<std::pair<std::int64_t, std::int32_t>, Piece> pieces;  // by first token
    for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
      const StepPlan plan = planner.plan(step);
      std::int64_t labels = 0;
      for (const Piece& found : pieces_in(plan)) {
        EXPECT_TRUE(pieces.emplace(std::pair(found.example, found.begin), found).second);
        labels += found.length - (found.continues ? 0 : 1);
      }
      EXPECT_EQ(plan.num_loss_tokens, labels) << "seed " << seed;
      counted_labels += plan.num_loss_tokens;
      counted_examples += plan.num_examples;
    }
    for (const auto& [example, length] : lengths) {
      num_labels += length - 1;
      for (std::int32_t begin = 0; begin < length;) {
        const Piece& found = pieces.at({example, begin});
        begin += found.length;
        EXPECT_EQ(found.continues, begin < length);
        ASSERT_LE(begin, length);
        pieces.erase({example, found.begin});
      }
    }
    EXPECT_TRUE(pieces.empty());
    EXPECT_EQ(counted_labels, num_labels);
    EXPECT_EQ(counted_examples, std::ssize(lengths));
  }
}

TEST(Rows, AreFullButTheLastOfAnEpochAndStayInOneMicroBatch) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const test::Examples examples = test::draw_examples(seed, 60, kLongest);
    PlanOptions options = draw_row_options(seed);
    options.too_long = TooLong::kError;
    options.cross_example_attention = true;  // shows where rows begin
    const Planner planner = planner_for(examples, options);
    std::int64_t num_short = 0;
    for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
      const StepPlan plan = planner.plan(step);
      ASSERT_EQ(std::ssize(plan.ranks), options.num_ranks);
      for (const auto& rank : plan.ranks) {
        ASSERT_EQ(std::ssize(rank), plan.num_micro_batches());
        for (const MicroBatch& micro_batch : rank) {
          EXPECT_LE(test::tokens_in(micro_batch), options.max_tokens_per_micro_batch);
          for_each_segment(micro_batch,
                           [&](std::span<const Piece>, const AttentionSegment& segment) {
                             EXPECT_LE(segment.rows.size(), options.max_length);
                             if (segment.rows.size() < options.max_length) ++num_short;
                           });
        }
      }
      if (step + 1 < planner.num_steps(1)) {
        EXPECT_EQ(plan.num_tokens, options.global_batch_tokens);
      }
    }
    EXPECT_LE(num_short, 1);
  }
}

TEST(Rows, OfAStepDependNeitherOnRanksNorOnAttention) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const test::Examples examples = draw(seed);
    PlanOptions options = draw_row_options(seed);
    options.too_long = TooLong::kSplit;
    options.num_ranks = 1;
    const Planner reference = planner_for(examples, options);
    for (const int num_ranks : {3, 8, 64}) {
      options.num_ranks = num_ranks;
      options.cross_example_attention = num_ranks == 3;
      const Planner planner = planner_for(examples, options);
      ASSERT_EQ(planner.num_steps(2), reference.num_steps(2));
      for (std::int64_t step = 0; step < reference.num_steps(2); step += 3) {
        const StepPlan plan = planner.plan(step);
        ASSERT_EQ(test::examples_in(plan), test::examples_in(reference.plan(step)));
        EXPECT_EQ(plan.num_loss_tokens, reference.plan(step).num_loss_tokens);
      }
    }
  }
}

TEST(Rows, AStepMayHaveNoLabelAtAll) {
  class OnlyTheLast final : public LossCounter {
   public:
    std::int64_t loss_tokens_before(std::int64_t, std::int32_t num_tokens) const override {
      return num_tokens == 12 ? 1 : 0;
    }
  };
  const OnlyTheLast counter;
  const std::vector<std::int32_t> lengths = {12};
  const std::vector<std::int32_t> num_loss_tokens = {1};
  const Planner planner(lengths, num_loss_tokens, counter, row_options(5, 1));
  std::vector<std::int64_t> labels;
  for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
    labels.push_back(planner.plan(step).num_loss_tokens);
  }
  EXPECT_EQ(labels, (std::vector<std::int64_t>{0, 0, 1}));
}

TEST(Rows, CountBeyond31Bits) {
  constexpr std::int32_t kHuge = std::numeric_limits<std::int32_t>::max();
  const test::Examples examples = test::examples_of({kHuge, kHuge, 10, kHuge});
  const Planner planner = planner_for(examples, row_options(1 << 30, 2));
  ASSERT_EQ(planner.num_steps(1), 4);
  std::int64_t num_tokens = 0;
  for (std::int64_t step = 0; step < 4; ++step) num_tokens += planner.plan(step).num_tokens;
  EXPECT_EQ(num_tokens, 3 * std::int64_t{kHuge} + 10);
}

Error error_of(const PlanOptions& options) {
  try {
    planner_for(test::examples_of({3, 10}), options);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCategory::kInternal, "no error was thrown"};
}

TEST(FixedLengthPlan, RefusesAStepThatIsNoWholeNumberOfRows) {
  PlanOptions options = row_options(5, 2);
  options.global_batch_tokens = 13;
  EXPECT_EQ(error_of(options).category(), ErrorCategory::kConfig);
  EXPECT_EQ(error_of(options).advice(), "Set batch.global_batch_tokens to 10 or 15.");
  options.global_batch_tokens = 4;
  EXPECT_EQ(error_of(options).advice(), "Set batch.global_batch_tokens to 5 or a multiple of it.");
}

TEST(FixedLengthPlan, RefusesRowsThatExceedTheBudget) {
  PlanOptions options = row_options(20, 2);  // longer than every example
  options.max_tokens_per_micro_batch = 19;
  EXPECT_EQ(error_of(options).category(), ErrorCategory::kConfig);
  EXPECT_NE(error_of(options).message().find("rows of data.max_length = 20"), std::string::npos);
}

}  // namespace
}  // namespace packtrain::rows_test

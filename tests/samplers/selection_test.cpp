#include "samplers/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "framework/core/error.h"
#include "samplers/planner.h"
#include "tests/samplers/memory_store.h"

namespace packtrain::selection_test {
namespace {

// Only the tokens from 6 on are labels.
class CompletionOnly final : public LossCounter {
 public:
  std::int64_t loss_tokens_before(std::int64_t, std::int32_t num_tokens) const override {
    return std::max(num_tokens - 6, 0);
  }
};

const CompletionOnly kCounter;
// Empty, short, fully masked, too long, too long and fully masked.
const std::vector<std::int32_t> kLengths = {0, 8, 9, 20, 21};
const std::vector<std::int32_t> kLossTokens = {0, 2, 0, 14, 0};

std::vector<ExampleIndex> selected(const Selection& selection) {
  return {selection.examples().begin(), selection.examples().end()};
}

TEST(Selection, LeavesOutEmptyAndFullyMaskedExamplesAndCountsThem) {
  const Selection selection(kLengths, kLossTokens, kCounter, TooLong::kError, 100);
  EXPECT_EQ(selected(selection), (std::vector<ExampleIndex>{1, 3}));
  EXPECT_EQ(selection.losses().empty_examples, 1);
  EXPECT_EQ(selection.losses().masked_examples, 2);
  EXPECT_EQ(selection.losses().dropped_examples, 0);
  EXPECT_EQ(selection.losses().truncated_examples, 0);
}

TEST(Selection, DropsTooLongExamplesAndCountsThem) {
  const Selection selection(kLengths, kLossTokens, kCounter, TooLong::kDrop, 10);
  EXPECT_EQ(selected(selection), (std::vector<ExampleIndex>{1}));
  EXPECT_EQ(selection.losses().dropped_examples, 2);
  EXPECT_EQ(selection.losses().masked_examples, 1);
}

TEST(Selection, TruncatesTooLongExamplesAndTheirLabels) {
  const Selection selection(kLengths, kLossTokens, kCounter, TooLong::kTruncate, 10);
  EXPECT_EQ(selected(selection), (std::vector<ExampleIndex>{1, 3}));
  EXPECT_EQ(selection.losses().truncated_examples, 1);
  EXPECT_EQ(selection.length(1), 8);
  EXPECT_EQ(selection.num_loss_tokens(1), 2);
  EXPECT_EQ(selection.length(3), 10);
  EXPECT_EQ(selection.num_loss_tokens(3), 4);
}

TEST(Selection, CountsApartWhatTruncationLeavesNothingOfThatIsLearned) {
  const Selection selection(kLengths, kLossTokens, kCounter, TooLong::kTruncate, 8);
  EXPECT_EQ(selection.losses().truncated_examples, 1);
  const std::vector<std::int32_t> lengths = {4, 20};
  const std::vector<std::int32_t> labels = {3, 14};
  const Selection short_cut(lengths, labels, kCounter, TooLong::kTruncate, 6);
  EXPECT_EQ(selected(short_cut), (std::vector<ExampleIndex>{0}));
  EXPECT_EQ(short_cut.losses().truncated_examples, 0);
  EXPECT_EQ(short_cut.losses().masked_examples, 0);
  EXPECT_EQ(short_cut.losses().truncated_to_empty_examples, 1);
}

TEST(Selection, NamesTheFirstTooLongExampleAndTheLongest) {
  const std::vector<std::int32_t> lengths = {4, 20, 5, 30};
  const std::vector<std::int32_t> labels = {3, 19, 4, 29};
  std::optional<Error> error;
  try {
    const Selection selection(lengths, labels, kCounter, TooLong::kError, 10);
  } catch (const Error& thrown) {
    error = thrown;
  }
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->category(), ErrorCategory::kData);
  EXPECT_EQ(error->message(),
            "example 1 has 20 tokens, more than data.max_length = 10 (2 of 4 examples are longer, "
            "the longest has 30 tokens)");
  EXPECT_NE(error->advice().find("data.too_long"), std::string::npos);
  EXPECT_NE(error->advice().find("batch.max_tokens_per_micro_batch"), std::string::npos);
}

TEST(Selection, FailsWhenNothingIsLeft) {
  const std::vector<std::int32_t> lengths = {0, 7};
  const std::vector<std::int32_t> labels = {0, 0};
  for (const std::size_t count : {0, 1, 2}) {
    try {
      const std::span<const std::int32_t> all_lengths(lengths);
      const std::span<const std::int32_t> all_labels(labels);
      const Selection selection(all_lengths.first(count), all_labels.first(count), kCounter,
                                TooLong::kError, 10);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::kData);
      EXPECT_NE(error.message().find("no example is left"), std::string::npos);
    }
  }
}

TEST(Selection, AdvisesALargerMaxLengthWhenCutsLeaveNothing) {
  const std::vector<std::int32_t> lengths = {20, 7};
  const std::vector<std::int32_t> labels = {3, 0};
  std::optional<Error> error;
  try {
    const Selection selection(lengths, labels, kCounter, TooLong::kTruncate, 6);
  } catch (const Error& thrown) {
    error = thrown;
  }
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->message(),
            "no example is left to train on: of 2 examples 0 are empty, 0 were dropped as longer "
            "than data.max_length = 6, 1 have no label, 1 are cut there before anything that is "
            "learned");
  EXPECT_EQ(error->advice(), "Raise data.max_length, or choose data.too_long: split.");
}

TEST(Selection, SplitsTooLongExamplesAndKeepsEveryLabel) {
  const Selection selection(kLengths, kLossTokens, kCounter, TooLong::kSplit, 9);
  EXPECT_EQ(selected(selection), (std::vector<ExampleIndex>{1, 3}));
  EXPECT_EQ(selection.losses().split_examples, 1);
  EXPECT_EQ(selection.losses().masked_examples, 2);
  EXPECT_EQ(selection.length(3), 20);
  EXPECT_EQ(selection.piece_length(3), 9);
  EXPECT_EQ(selection.num_loss_tokens(3), 14);
  MicroBatch pieces;
  selection.append_pieces(1, pieces);
  selection.append_pieces(3, pieces);
  const auto piece = [](std::int64_t example, std::int32_t begin, std::int32_t length,
                        bool continues) {
    return Piece{.example = example, .begin = begin, .length = length, .continues = continues};
  };
  EXPECT_EQ(pieces, (MicroBatch{piece(1, 0, 8, false), piece(3, 0, 9, true), piece(3, 9, 9, true),
                                piece(3, 18, 2, false)}));
}

TEST(SelectedExamples, AreThoseThatWereNotLeftOut) {
  const std::vector<std::vector<ExampleIndex>> cases = {
      {}, {0}, {9}, {0, 1, 5, 9}, {1, 2, 3, 4, 5, 6, 7, 8}, {0, 1, 2, 3, 4, 5, 6, 7, 8}};
  for (const auto& left_out : cases) {
    const SelectedExamples examples(10, left_out);
    std::vector<ExampleIndex> wanted;
    for (ExampleIndex e = 0; e < 10; ++e) {
      if (std::ranges::find(left_out, e) == left_out.end()) wanted.push_back(e);
    }
    EXPECT_EQ(examples.table(), wanted);
    EXPECT_EQ(std::vector<ExampleIndex>(examples.begin(), examples.end()), wanted);
    EXPECT_EQ(examples.size(), wanted.size());
    EXPECT_EQ(examples.back(), wanted.back());
  }
}

TEST(StoreLossCounter, CountsSupervisedTokensThatHaveAPredecessor) {
  const test::MemoryStore store({{.input_ids = {5, 6, 7, 8}, .loss_mask = {1, 0, 1, 1}}});
  const StoreLossCounter counter(store);
  const std::vector<std::int64_t> expected = {0, 0, 0, 1, 2, 2};
  for (std::int32_t num_tokens = 0; num_tokens < 6; ++num_tokens) {
    EXPECT_EQ(counter.loss_tokens_before(0, num_tokens),
              expected[static_cast<std::size_t>(num_tokens)]);
  }
}

// Returns the number of mask bytes that a plan reads.
class ReadCounter final : public LossCounter {
 public:
  explicit ReadCounter(const TokenStore& store) : counter_(store) {}
  std::int64_t loss_tokens_before(std::int64_t example, std::int32_t num_tokens) const override {
    return loss_tokens_between(example, 1, num_tokens);
  }
  std::int64_t loss_tokens_between(std::int64_t example, std::int32_t begin,
                                   std::int32_t end) const override {
    num_read += std::max(end - begin, 0);
    return counter_.loss_tokens_between(example, begin, end);
  }
  bool has_label_before(std::int64_t example, std::int32_t num_tokens) const override {
    ++num_looks;
    return counter_.has_label_before(example, num_tokens);
  }
  mutable std::int64_t num_read = 0;
  mutable std::int64_t num_looks = 0;

 private:
  StoreLossCounter counter_;
};

test::MemoryExample document(std::size_t num_tokens) {
  return {.input_ids = std::vector<std::int32_t>(num_tokens, 1),
          .loss_mask = std::vector<std::uint8_t>(num_tokens, 1)};
}

TEST(StoreLossCounter, CountsBetweenTwoTokens) {
  const test::MemoryStore store({{.input_ids = {5, 6, 7, 8}, .loss_mask = {1, 0, 1, 1}}});
  const StoreLossCounter counter(store);
  EXPECT_EQ(counter.loss_tokens_between(0, 1, 3), 1);
  EXPECT_EQ(counter.loss_tokens_between(0, 3, 100), 1);
  EXPECT_EQ(counter.loss_tokens_between(0, 3, 3), 0);
  EXPECT_FALSE(counter.has_label_before(0, 2));
  EXPECT_TRUE(counter.has_label_before(0, 3));
}

TEST(Plan, ReadsEachTokenOfALongDocumentOnce) {
  constexpr std::int64_t kNumTokens = 1 << 20;
  const test::MemoryStore store({document(kNumTokens)});
  for (const Strategy strategy : {Strategy::kFixedLength, Strategy::kMultipack}) {
    const ReadCounter counter(store);
    PlanOptions options;
    options.strategy = strategy;
    options.too_long = TooLong::kSplit;
    options.max_length = 512;
    options.max_tokens_per_micro_batch = 4096;
    options.global_batch_size = 0;
    options.global_batch_tokens = 4096;
    const Planner planner(store.lengths(), store.num_loss_tokens(), counter, options);
    const std::int64_t num_steps = planner.num_steps(1);
    std::int64_t num_labels = 0;
    for (std::int64_t step = 0; step < num_steps; ++step) {
      num_labels += planner.plan(step).num_loss_tokens;
    }
    EXPECT_EQ(num_labels, kNumTokens - 1);
    EXPECT_LE(counter.num_read, kNumTokens);
  }
}

TEST(Selection, ReadsNoMaskOfATruncatedExampleWithMoreLabelsThanAreCutOff) {
  const test::MemoryStore store({document(100), document(50)});
  const ReadCounter counter(store);
  const Selection selection(store.lengths(), store.num_loss_tokens(), counter, TooLong::kTruncate,
                            20);
  EXPECT_EQ(selection.losses().truncated_examples, 2);
  EXPECT_EQ(counter.num_read, 0);
  EXPECT_EQ(counter.num_looks, 0);
}

TEST(Plan, HoldsTruncatedLengthsAndLabels) {
  PlanOptions options;
  options.too_long = TooLong::kTruncate;
  options.max_length = 10;
  options.order = OrderKind::kSequential;
  const Planner planner(kLengths, kLossTokens, kCounter, options);
  const StepPlan plan = planner.plan(0);
  ASSERT_EQ(plan.ranks[0][0].size(), 2U);
  EXPECT_EQ(plan.ranks[0][0][1],
            (Piece{.example = 3, .begin = 0, .length = 10, .continues = false}));
  EXPECT_EQ(plan.num_tokens, 18);
  EXPECT_EQ(plan.num_loss_tokens, 6);
  EXPECT_EQ(planner.losses().truncated_examples, 1);
}

}  // namespace
}  // namespace packtrain::selection_test

#include "samplers/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "tests/samplers/lengths.h"

namespace packtrain {
namespace {

using Order = std::vector<ExampleIndex>;

constexpr std::int32_t kLongest = 600;
const test::EveryTokenCounts kCounter;

class GroupByLength : public ::testing::Test {
 protected:
  // Orders of the same examples; draws whole and broken last steps, and fewer examples than a step.
  static constexpr std::uint64_t kNumDraws = 40;

  struct Case {
    explicit Case(std::uint64_t seed)
        : examples(test::draw_examples(seed, 1 + static_cast<std::int64_t>(seed) * 97, kLongest)),
          selection(examples.lengths, examples.num_loss_tokens, kCounter, TooLong::kError,
                    kLongest),
          options{OrderKind::kGroupByLength, seed, 1 + static_cast<std::int64_t>(seed % 13),
                  selection} {}

    Order order(OrderKind kind, std::int64_t epoch) const {
      Order order(selection.examples().begin(), selection.examples().end());
      OrderOptions chosen = options;
      chosen.kind = kind;
      arrange(chosen, epoch, order);
      return order;
    }

    test::Examples examples;
    Selection selection;
    OrderOptions options;
  };
};

TEST_F(GroupByLength, EveryExampleAppearsOnceAndTheSameEveryTime) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const Case drawn(seed);
    Order order = drawn.order(OrderKind::kGroupByLength, 3);
    EXPECT_EQ(order, drawn.order(OrderKind::kGroupByLength, 3));
    if (order.size() > 50) {
      EXPECT_NE(order, drawn.order(OrderKind::kGroupByLength, 4));
    }
    std::ranges::sort(order);
    EXPECT_TRUE(std::ranges::equal(order, drawn.selection.examples())) << "seed " << seed;
  }
}

TEST_F(GroupByLength, NoExampleLeavesTheMegaBatchThatTheShufflePutItIn) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const Case drawn(seed);
    const Order random = drawn.order(OrderKind::kRandom, 0);
    const Order grouped = drawn.order(OrderKind::kGroupByLength, 0);
    const std::int64_t bound = kStepsPerMegaBatch * drawn.options.global_batch_size;
    std::vector<std::int64_t> place(random.size());
    for (std::size_t i = 0; i < random.size(); ++i) place[random[i]] = static_cast<std::int64_t>(i);
    for (std::size_t i = 0; i < grouped.size(); ++i) {
      const auto now = static_cast<std::int64_t>(i);
      ASSERT_EQ(now / bound, place[grouped[i]] / bound);
      ASSERT_LT(std::abs(now - place[grouped[i]]), bound);
    }
  }
}

TEST_F(GroupByLength, StepsOfAMegaBatchDoNotOverlapInLengthAndComeInNoOrder) {
  constexpr std::int64_t kSize = 16;
  const test::Examples examples = test::draw_examples(6, kStepsPerMegaBatch * kSize, kLongest);
  const Selection selection(examples.lengths, examples.num_loss_tokens, kCounter, TooLong::kError,
                            kLongest);
  Order order(selection.examples().begin(), selection.examples().end());
  arrange({OrderKind::kGroupByLength, 1, kSize, selection}, 0, order);
  std::vector<std::pair<std::int32_t, std::int32_t>> ranges;  // longest, shortest
  for (std::size_t first = 0; first < order.size(); first += kSize) {
    const auto step = std::span(order).subspan(first, kSize);
    EXPECT_TRUE(std::ranges::is_sorted(
        step, std::greater{}, [&](ExampleIndex example) { return selection.length(example); }));
    ranges.emplace_back(selection.length(step.front()), selection.length(step.back()));
  }
  EXPECT_FALSE(std::ranges::is_sorted(ranges, std::greater{}));
  std::ranges::sort(ranges, std::greater{});
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    EXPECT_GE(ranges[i - 1].second, ranges[i].first);
  }
}

TEST_F(GroupByLength, TheShortLastStepIsNotAlwaysTheShortestExamples) {
  std::vector<std::int32_t> lengths;
  for (std::int32_t length = 2; length < 102; ++length) lengths.push_back(length);
  const test::Examples examples = test::examples_of(lengths);
  const Selection selection(examples.lengths, examples.num_loss_tokens, kCounter, TooLong::kError,
                            kLongest);
  double sum = 0;
  constexpr int kNumEpochs = 300;
  for (int epoch = 0; epoch < kNumEpochs; ++epoch) {
    Order order(selection.examples().begin(), selection.examples().end());
    arrange({OrderKind::kGroupByLength, 1, 8, selection}, epoch, order);
    for (const ExampleIndex example : std::span(order).last(4)) sum += selection.length(example);
  }
  // Uniform over 13 places: standard deviation of the mean 30 / sqrt(300) = 1.7.
  EXPECT_NEAR(sum / (4 * kNumEpochs), 51.5, 8);
}

}  // namespace
}  // namespace packtrain

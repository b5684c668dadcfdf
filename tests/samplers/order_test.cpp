#include "samplers/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "samplers/planner.h"
#include "tests/samplers/lengths.h"

namespace packtrain::order_test {
namespace {

using Table = std::vector<ExampleIndex>;

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

    Table order(OrderKind kind, std::int64_t epoch) const {
      Table order(selection.examples().begin(), selection.examples().end());
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
    Table order = drawn.order(OrderKind::kGroupByLength, 3);
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
    const Table random = drawn.order(OrderKind::kRandom, 0);
    const Table grouped = drawn.order(OrderKind::kGroupByLength, 0);
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
  Table order(selection.examples().begin(), selection.examples().end());
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
    Table order(selection.examples().begin(), selection.examples().end());
    arrange({OrderKind::kGroupByLength, 1, 8, selection}, epoch, order);
    for (const ExampleIndex example : std::span(order).last(4)) sum += selection.length(example);
  }
  // Uniform over 13 places: standard deviation of the mean 30 / sqrt(300) = 1.7.
  EXPECT_NEAR(sum / (4 * kNumEpochs), 51.5, 8);
}

// All of one length, of which nothing is kept.
class EqualCounts final : public CountSource {
 public:
  EqualCounts(std::size_t size, std::int32_t count) : size_(size), count_(count) {}
  std::size_t size() const override { return size_; }
  std::int32_t count(std::size_t /*example*/) const override {
    ++num_asked;
    return count_;
  }
  std::optional<CountBounds> bounds() const override { return CountBounds{count_, count_}; }

  mutable std::int64_t num_asked = 0;

 private:
  std::size_t size_;
  std::int32_t count_;
};

Table places(const Order& order) {
  Table found;
  for (std::size_t place = 0; place < order.size(); ++place) found.push_back(order[place]);
  return found;
}

class ComputedOrder : public ::testing::Test {
 protected:
  static constexpr std::int64_t kSize = 4;
  ComputedOrder()
      : examples(test::draw_examples(5, 1000, kLongest)),
        selection(examples.lengths, examples.num_loss_tokens, kCounter, TooLong::kError, kLongest) {
  }

  Order order(OrderKind kind, std::int64_t epoch, std::int64_t most_shuffled, int version = 2,
              std::uint64_t seed = 3) const {
    return {OrderOptions{kind, seed, kSize, selection, version, most_shuffled}, epoch};
  }

  test::Examples examples;
  Selection selection;
};

TEST_F(ComputedOrder, BeginsAboveTheExamplesThatAreShuffled) {
  static_assert(kMaxShuffled == 1 << 26);
  const auto num_examples = static_cast<std::int64_t>(selection.examples().size());
  for (const OrderKind kind : {OrderKind::kRandom, OrderKind::kGroupByLength}) {
    Table shuffled = selection.examples().table();
    arrange({kind, 3, kSize, selection}, 1, shuffled);
    EXPECT_EQ(places(order(kind, 1, num_examples)), shuffled);
    EXPECT_NE(places(order(kind, 1, num_examples - 1)), shuffled);
    EXPECT_EQ(places(order(kind, 1, num_examples - 1, 1)), shuffled) << "a run keeps its version";
  }
}

TEST_F(ComputedOrder, HasEveryExampleOnceAndAnotherOrderEachEpochAndSeed) {
  for (const OrderKind kind : {OrderKind::kRandom, OrderKind::kGroupByLength}) {
    const Table first = places(order(kind, 0, 10));
    EXPECT_EQ(first, order(kind, 0, 10).take_table());
    EXPECT_NE(first, places(order(kind, 1, 10)));
    EXPECT_NE(first, places(order(kind, 0, 10, 2, 4)));
    Table sorted = first;
    std::ranges::sort(sorted);
    EXPECT_EQ(sorted, selection.examples().table());
  }
  EXPECT_EQ(places(order(OrderKind::kSequential, 0, 10)), selection.examples().table());
}

TEST_F(ComputedOrder, GroupsByLengthInsideItsMegaBatches) {
  const Table random = places(order(OrderKind::kRandom, 0, 10));
  const Table grouped = places(order(OrderKind::kGroupByLength, 0, 10));
  const std::size_t most = kStepsPerMegaBatch * kSize;
  for (std::size_t first = 0; first < random.size(); first += most) {
    const std::size_t size = std::min(most, random.size() - first);
    Table a(random.begin() + first, random.begin() + first + size);
    Table b(grouped.begin() + first, grouped.begin() + first + size);
    std::ranges::sort(a);
    std::ranges::sort(b);
    EXPECT_EQ(a, b);
  }
}

TEST(BillionExamples, HaveTheirFirstStepsInTokensWithoutLookingAtTheOthers) {
  const EqualCounts lengths(1'000'000'000, 500);
  const EqualCounts labels(1'000'000'000, 499);
  PlanOptions options;
  options.global_batch_size = 0;
  options.global_batch_tokens = 50'000;
  options.num_ranks = 8;
  const Planner planner(lengths, labels, kCounter, options);
  EXPECT_EQ(planner.plan(3).num_examples, 100);
  EXPECT_EQ(planner.position(7).step_of_epoch, 7);
  EXPECT_EQ(planner.num_steps(1000, 50), 50);
  EXPECT_LT(lengths.num_asked, 20'000);
}

TEST(BillionExamples, ArePlannedWithoutANumberForEach) {
  const EqualCounts lengths(1'000'000'000, 512);
  const EqualCounts labels(1'000'000'000, 511);
  for (const OrderKind kind :
       {OrderKind::kRandom, OrderKind::kGroupByLength, OrderKind::kSequential}) {
    PlanOptions options;
    options.order = kind;
    options.global_batch_size = 64;
    options.num_ranks = 8;
    const Planner planner(lengths, labels, kCounter, options);
    EXPECT_EQ(planner.num_steps(2), 2 * 1'000'000'000 / 64);
    std::set<std::int64_t> examples;
    for (const std::int64_t step : {0, 1, 15'624'999, 15'625'000}) {
      for (const auto& rank : planner.plan(step).ranks) {
        for (const MicroBatch& pieces : rank) {
          for (const Piece& piece : pieces) examples.insert(piece.example);
        }
      }
    }
    EXPECT_GE(examples.size(), kind == OrderKind::kSequential ? 192U : 250U);
    EXPECT_LE(*examples.rbegin(), 999'999'999);
  }
}

}  // namespace
}  // namespace packtrain::order_test

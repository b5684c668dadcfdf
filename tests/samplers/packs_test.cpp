#include "samplers/batches/packs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "samplers/batches/free_space_index.h"
#include "samplers/order.h"
#include "samplers/planner.h"
#include "tests/samplers/lengths.h"
#include "tests/samplers/pack_options.h"

namespace packtrain::packs_test {
namespace {

using test::kCounter;
using test::kLongest;
using test::make_planner;
using test::pack_options;

// Lognormal with a mean of `mean` tokens, from 8 to 4096.
test::Examples lognormal(std::int64_t count, double mean, double sigma) {
  const CounterRandom random(7, "lognormal lengths");
  std::vector<std::int32_t> lengths;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    const double length = mean * std::exp(sigma * random.normal(i) - sigma * sigma / 2);
    lengths.push_back(static_cast<std::int32_t>(std::clamp(length, 8.0, 4096.0)));
  }
  return test::examples_of(std::move(lengths));
}

// The epoch's packs in order, as the planner sees them.
class EpochPacks {
 public:
  EpochPacks(const test::Examples& examples, const PlanOptions& options)
      : options_(options),
        selection_(examples.lengths, examples.num_loss_tokens, kCounter, options_.too_long,
                   options_.max_length),
        order_(selection_.examples().begin(), selection_.examples().end()) {
    arrange({options_.order, options_.seed, options_.global_batch_size, selection_}, 0, order_);
    const auto batches = make_packs({selection_, options_, 0, order_});
    for (std::int64_t s = 0; s < batches->num_steps(); ++s) steps_.push_back(batches->step(s));
  }

  const std::vector<ExampleIndex>& order() const { return order_; }
  const std::vector<StepPieces>& steps() const { return steps_; }
  std::vector<std::vector<Piece>> packs() const {
    std::vector<std::vector<Piece>> packs;
    for (const StepPieces& step : steps_) {
      for (std::size_t p = 0; p < step.num_packs(); ++p) {
        const auto pack = step.pack(p);
        packs.emplace_back(pack.begin(), pack.end());
      }
    }
    return packs;
  }

 private:
  PlanOptions options_;
  Selection selection_;
  std::vector<ExampleIndex> order_;
  std::vector<StepPieces> steps_;
};

double fill_of(const EpochPacks& epoch, std::int64_t capacity) {
  double tokens = 0;
  for (const StepPieces& step : epoch.steps()) tokens += static_cast<double>(step.num_tokens);
  return tokens / static_cast<double>(std::ssize(epoch.packs()) * capacity);
}

TEST(FreeSpaceIndex, FindsTheSmallestFreeSpaceThatIsLargeEnough) {
  for (const std::int64_t largest : {100L, 65'535L, 65'536L, 1'000'000L, 2'147'483'647L}) {
    FreeSpaceIndex index(largest);
    std::set<std::size_t> reference;
    const CounterRandom random(static_cast<std::uint64_t>(largest), "rooms");
    for (std::uint64_t i = 0; i < 3000; ++i) {
      const auto draw = [&](std::uint64_t n) {
        return static_cast<std::int64_t>(
            random.below(4 * i + n, static_cast<std::uint64_t>(largest) + 1));
      };
      const std::size_t free_space_class = index.class_of(draw(0));
      if (random.below(4 * i + 1, 3) > 0) {
        index.insert(free_space_class);
        reference.insert(free_space_class);
      } else if (const auto some = reference.lower_bound(free_space_class);
                 some != reference.end()) {
        index.erase(*some);
        reference.erase(some);
      }
      const std::int64_t tokens = draw(2);
      auto expected = reference.lower_bound(index.class_of(tokens));
      // A class holds a range of free spaces. Only those of later classes are surely large enough.
      const bool is_first_room = tokens == 0 || index.class_of(tokens - 1) < index.class_of(tokens);
      if (expected != reference.end() && *expected == index.class_of(tokens) && !is_first_room) {
        ++expected;
      }
      ASSERT_EQ(index.find(tokens),
                expected == reference.end() ? FreeSpaceIndex::kNone : *expected);
    }
  }
}

TEST(Packs, PutEachExampleIntoTheFullestPackThatItFits) {
  const EpochPacks epoch(test::examples_of({6, 5, 3, 4, 2, 5, 9}), pack_options(10, 2));
  std::vector<std::vector<std::int64_t>> packs;
  for (const auto& pack : epoch.packs()) {
    packs.emplace_back();
    for (const Piece& piece : pack) packs.back().push_back(piece.example);
  }
  // 6 takes 3 (free space 4, not 5), then 5 takes 4. The 2 opens a pack, which the next 5 joins.
  EXPECT_EQ(packs, (std::vector<std::vector<std::int64_t>>{{0, 2}, {1, 3}, {4, 5}, {6}}));
  EXPECT_EQ(std::ssize(epoch.steps()), 2);
}

TEST(Packs, NoExampleMovesPackingWindowPlacesOrMore) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const CounterRandom random(seed, "windows");
    const test::Examples examples =
        test::draw_examples(seed, 1 + static_cast<std::int64_t>(random.below(0, 3000)), kLongest);
    PlanOptions options = pack_options(kLongest + static_cast<std::int64_t>(random.below(1, 3000)),
                                       1 + static_cast<std::int64_t>(random.below(2, 9)));
    options.packing_window = 1 + static_cast<std::int64_t>(random.below(3, 300));
    options.order = OrderKind::kRandom;
    options.seed = seed;
    const EpochPacks epoch(examples, options);
    std::vector<std::int64_t> place_of(examples.lengths.size());
    for (std::size_t i = 0; i < epoch.order().size(); ++i) {
      place_of[epoch.order()[i]] = static_cast<std::int64_t>(i);
    }
    std::int64_t place = 0;
    std::int64_t furthest = 0;
    for (const StepPieces& step : epoch.steps()) {
      for (const Piece& piece : step.pieces) {
        furthest = std::max(furthest,
                            std::abs(place++ - place_of[static_cast<std::size_t>(piece.example)]));
      }
    }
    ASSERT_EQ(place, std::ssize(examples.lengths));
    ASSERT_LT(furthest, options.packing_window) << "seed " << seed;
  }
}

TEST(Packs, AreFullWhereLengthsAreWellBelowTheCapacity) {
  struct Case {
    double mean;
    double sigma;
    std::int64_t capacity;
    double fill;
  };
  for (const Case& c : {Case{475, 1.0, 16384, 0.99}, Case{475, 1.0, 4096, 0.99},
                        Case{290, 0.5, 4096, 0.99}, Case{290, 0.5, 16384, 0.99}}) {
    PlanOptions options = pack_options(c.capacity, 8);
    options.order = OrderKind::kRandom;
    const EpochPacks epoch(lognormal(20'000, c.mean, c.sigma), options);
    EXPECT_GE(fill_of(epoch, c.capacity), c.fill) << c.mean << " at " << c.capacity;
  }
}

// Packing must not decide when an example is trained: neither short ones first, nor long ones.
TEST(Packs, KeepTheMixOfLengthsThroughoutTheEpoch) {
  const test::Examples examples = lognormal(30'000, 475, 1.0);
  PlanOptions options = pack_options(4096, 8);
  options.order = OrderKind::kRandom;
  const auto packs = EpochPacks(examples, options).packs();
  const double mean =
      static_cast<double>(std::accumulate(examples.lengths.begin(), examples.lengths.end(), 0LL)) /
      static_cast<double>(examples.lengths.size());
  std::array<double, 3> tokens{};
  std::array<double, 3> counts{};
  double covariance = 0;
  double variance = 0;
  const double middle = static_cast<double>(packs.size() - 1) / 2;
  for (std::size_t p = 0; p < packs.size(); ++p) {
    for (const Piece& piece : packs[p]) {
      const double place = (static_cast<double>(p) - middle) / middle;  // -1 .. 1
      const double length = std::log(piece.length);
      covariance += place * (length - std::log(mean));
      variance += place * place;
      tokens[p * 3 / packs.size()] += piece.length;
      counts[p * 3 / packs.size()] += 1;
    }
  }
  // A third's mean has a standard deviation of 475 * 1.3 / sqrt(10'000), 1.3 % of the mean.
  for (std::size_t third = 0; third < 3; ++third) {
    EXPECT_NEAR(tokens[third] / counts[third], mean, 0.04 * mean) << third;
  }
  // Slope of log length over the epoch: standard deviation 1 / sqrt(30'000 / 3).
  EXPECT_NEAR(covariance / variance, 0.0, 0.04);
}

TEST(Packs, OfANewEpochHoldOtherExamplesTogether) {
  const test::Examples examples = lognormal(300, 475, 1.0);
  PlanOptions options = pack_options(4096, 2);
  options.order = OrderKind::kRandom;
  const Planner planner = make_planner(examples, options);
  EXPECT_NE(test::examples_in(planner.plan(0)),
            test::examples_in(planner.plan(planner.num_steps(1))));
}

}  // namespace
}  // namespace packtrain::packs_test

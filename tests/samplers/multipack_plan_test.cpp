// Steps made of packs, as the planner gives them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "samplers/batches/packs.h"
#include "samplers/planner.h"
#include "tests/samplers/lengths.h"
#include "tests/samplers/pack_options.h"
#include "tests/samplers/plan_errors.h"

namespace packtrain::multipack_plan_test {
namespace {

using test::error_of;
using test::kLongest;
using test::make_planner;
using test::pack_options;

PlanOptions draw_pack_options(std::uint64_t seed) {
  const CounterRandom random(seed, "pack options");
  PlanOptions options = pack_options(kLongest, 1);
  options.max_tokens_per_micro_batch = kLongest + static_cast<std::int64_t>(random.below(0, 2000));
  // Steps that are no multiple of the budget: packs are as large as they can be.
  options.global_batch_tokens =
      options.max_tokens_per_micro_batch * static_cast<std::int64_t>(1 + random.below(1, 9));
  options.global_batch_tokens += static_cast<std::int64_t>(random.below(2, 300));
  options.packing_window = 1 + static_cast<std::int64_t>(random.below(3, 200));
  options.order = random.below(4, 2) == 0 ? OrderKind::kSequential : OrderKind::kRandom;
  options.num_ranks = 1 + static_cast<int>(random.below(5, 9));
  options.too_long = TooLong::kSplit;
  options.max_length = pack_shape(options).capacity;
  options.max_length = std::min<std::int64_t>(
      options.max_length, 20 + static_cast<std::int64_t>(random.below(6, kLongest)));
  options.seed = seed;
  return options;
}

TEST(MultipackPlan, HoldsEveryTokenAndLabelExactlyOnceAnEpoch) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const test::Examples examples =
        test::draw_examples(seed, 1 + static_cast<std::int64_t>(seed % 120), kLongest);
    const PlanOptions options = draw_pack_options(seed);
    const Planner planner = make_planner(examples, options);
    std::map<std::pair<std::int64_t, std::int32_t>, Piece> pieces;  // by first token
    std::int64_t num_examples = 0;
    for (std::int64_t s = 0; s < planner.num_steps(1); ++s) {
      const StepPlan plan = planner.plan(s);
      std::int64_t labels = 0;
      std::int64_t tokens = 0;
      for (const auto& rank : plan.ranks) {
        ASSERT_EQ(std::ssize(rank), plan.num_micro_batches());
        for (const MicroBatch& micro_batch : rank) {
          ASSERT_LE(test::tokens_in(micro_batch), options.max_tokens_per_micro_batch);
          for (const Piece& piece : micro_batch) {
            ASSERT_TRUE(pieces.emplace(std::pair(piece.example, piece.begin), piece).second);
            ASSERT_LE(piece.length, options.max_length);
            labels += piece.length - (piece.continues ? 0 : 1);
            tokens += piece.length;
          }
        }
      }
      EXPECT_EQ(plan.num_loss_tokens, labels);
      EXPECT_EQ(plan.num_tokens, tokens);
      EXPECT_LE(plan.num_tokens, options.global_batch_tokens);
      num_examples += plan.num_examples;
    }
    EXPECT_EQ(num_examples, std::ssize(examples.lengths));
    for (std::size_t e = 0; e < examples.lengths.size(); ++e) {
      for (std::int32_t begin = 0; begin < examples.lengths[e];) {
        const Piece& piece = pieces.at({static_cast<std::int64_t>(e), begin});
        begin += piece.length;
        ASSERT_EQ(piece.continues, begin < examples.lengths[e]);
      }
    }
  }
}

TEST(MultipackPlan, PacksOfAStepDependOnNoRank) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const test::Examples examples =
        test::draw_examples(seed, 1 + static_cast<std::int64_t>(5 * seed), kLongest);
    PlanOptions options = draw_pack_options(seed);
    options.num_ranks = 1;
    const Planner reference = make_planner(examples, options);
    for (const int num_ranks : {3, 8, 64}) {
      options.num_ranks = num_ranks;
      const Planner planner = make_planner(examples, options);
      ASSERT_EQ(planner.num_steps(2), reference.num_steps(2));
      for (std::int64_t step = 0; step < reference.num_steps(2); step += 3) {
        ASSERT_EQ(test::examples_in(planner.plan(step)), test::examples_in(reference.plan(step)));
      }
    }
  }
}

TEST(MultipackPlan, AStepIsItsTokensOfPackCapacity) {
  PlanOptions options = pack_options(1000, 1);
  options.global_batch_tokens = 4000;
  EXPECT_EQ(pack_shape(options).packs_per_step, 4);
  EXPECT_EQ(pack_shape(options).capacity, 1000);
  options.global_batch_tokens = 4001;  // one pack more, all of them smaller
  EXPECT_EQ(pack_shape(options).packs_per_step, 5);
  EXPECT_EQ(pack_shape(options).capacity, 800);
}

TEST(MultipackPlan, NamesAnExampleThatFitsNoPack) {
  PlanOptions options = pack_options(1000, 1);
  options.global_batch_tokens = 1100;
  const Error error = error_of(test::examples_of({30, 700, 50}), options);
  EXPECT_EQ(error.category(), ErrorCategory::kConfig);
  EXPECT_NE(error.message().find("packs of 550 tokens"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("example 1 has 700 tokens"), std::string::npos);
  EXPECT_NE(error.advice().find("global_batch_tokens to 2000"), std::string::npos);
  EXPECT_NO_THROW(make_planner(test::examples_of({30, 550, 50}), options));
}

TEST(MultipackPlan, TakesLengthsOfAnyKind) {
  PlanOptions options = pack_options(kLongest, 3);
  options.num_ranks = 4;
  for (const std::vector<std::int32_t>& lengths :
       {std::vector<std::int32_t>{7}, std::vector<std::int32_t>(50, kLongest),
        std::vector<std::int32_t>(50, 7), std::vector<std::int32_t>{2, 2, kLongest}}) {
    const test::Examples examples = test::examples_of(lengths);
    const Planner planner = make_planner(examples, options);
    std::size_t num_examples = 0;
    for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
      num_examples += test::examples_in(planner.plan(step)).size();
    }
    EXPECT_EQ(num_examples, lengths.size());
  }
}

TEST(MultipackPlan, CountsBeyond31Bits) {
  constexpr std::int32_t kHuge = std::numeric_limits<std::int32_t>::max();
  const test::Examples examples = test::examples_of({kHuge, 1 << 30, (1 << 30) - 9, 8, 1 << 30});
  const PlanOptions options = pack_options(kHuge, 2);
  const Planner planner = make_planner(examples, options);
  ASSERT_EQ(planner.num_steps(1), 2);
  EXPECT_EQ(planner.plan(0).num_tokens + planner.plan(1).num_tokens,
            std::int64_t{kHuge} + 3 * (std::int64_t{1} << 30) - 1);
}

}  // namespace
}  // namespace packtrain::multipack_plan_test

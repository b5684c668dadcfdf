// Layouts: what is found when a run starts changes who does the work, never which work it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "samplers/planner.h"
#include "tests/samplers/lengths.h"

namespace packtrain::layouts_test {
namespace {

using test::draw_examples;
using test::Examples;
using test::examples_in;

const test::EveryTokenCounts kCounter;

PlanOptions make_options() {
  PlanOptions options;
  options.max_length = 600;
  options.global_batch_size = 20;
  options.max_tokens_per_micro_batch = 900;
  options.num_ranks = 2;
  return options;
}

class Layouts : public testing::Test {
 protected:
  Planner make_planner(const PlanOptions& options) const {
    return {examples_.lengths, examples_.num_loss_tokens, kCounter, options};
  }

  Examples examples_ = draw_examples(1, 200, 600);
};

TEST_F(Layouts, HoldFromTheirStepOn) {
  PlanOptions slow_first = make_options();
  slow_first.speeds = {0.5, 1.5};
  PlanOptions large = make_options();
  large.max_tokens_per_micro_batch = 5000;
  large.cost.quadratic = 0.01;
  Planner planner = make_planner(large);
  planner.set_layouts(std::vector<PlanLayout>{{2, 900, slow_first.cost, slow_first.speeds},
                                              {5, 5000, large.cost, {}}});
  const Planner before = make_planner(slow_first);
  const Planner after = make_planner(large);
  for (std::int64_t step = 0; step < 10; ++step) {
    EXPECT_EQ(planner.plan(step).ranks, (step < 5 ? before : after).plan(step).ranks) << step;
  }
  EXPECT_NE(before.plan(6).ranks, after.plan(6).ranks);
}

TEST_F(Layouts, NeverChangeTheExamplesOfAStep) {
  const PlanOptions options = make_options();
  const Planner reference = make_planner(options);
  Planner planner = make_planner(options);
  planner.set_layouts(std::vector<PlanLayout>{{3, 900, {.linear = 1, .quadratic = 1}, {0.2, 1.8}}});
  for (std::int64_t step = 0; step < 10; ++step) {
    const StepPlan plan = planner.plan(step);
    EXPECT_EQ(examples_in(plan), examples_in(reference.plan(step)));
    EXPECT_EQ(plan.num_loss_tokens, reference.plan(step).num_loss_tokens);
  }
}

TEST_F(Layouts, GiveASlowerRankItsShare) {
  const PlanOptions options = make_options();
  Planner planner = make_planner(options);
  planner.set_layouts(std::vector<PlanLayout>{{0, 100'000, options.cost, {0.5, 1.5}}});
  double first = 0;
  double all = 0;
  for (std::int64_t step = 0; step < 10; ++step) {
    const StepPlan plan = planner.plan(step);
    for (const MicroBatch& pieces : plan.ranks[0]) {
      first += static_cast<double>(test::tokens_in(pieces));
    }
    all += static_cast<double>(plan.num_tokens);
  }
  EXPECT_NEAR(first / all, 0.25, 0.01);
}

std::vector<Piece> pieces_of(const StepPlan& plan) {
  std::vector<Piece> all;
  for (const auto& rank : plan.ranks) {
    for (const MicroBatch& pieces : rank) all.insert(all.end(), pieces.begin(), pieces.end());
  }
  std::ranges::sort(all, {},
                    [](const Piece& piece) { return std::pair(piece.example, piece.begin); });
  return all;
}

TEST(LoweredBudget, HoldsOrASequenceIsAloneAndNothingOfTheStepIsLost) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Examples examples = draw_examples(seed, 120, 600);
    const PlanOptions options = test::draw_options_with_packs(seed, 600);
    Planner planner(examples.lengths, examples.num_loss_tokens, kCounter, options);
    const StepPlan whole = planner.plan(0);
    for (const std::int64_t budget : {options.max_tokens_per_micro_batch - 1, std::int64_t{300},
                                      std::int64_t{20}, std::int64_t{1}}) {
      planner.set_layouts(std::vector<PlanLayout>{{0, budget, options.cost, options.speeds}});
      const StepPlan plan = planner.plan(0);
      EXPECT_EQ(pieces_of(plan), pieces_of(whole)) << seed;
      for (const auto& rank : plan.ranks) {
        EXPECT_EQ(std::ssize(rank), plan.num_micro_batches());
        for (const MicroBatch& pieces : rank) {
          EXPECT_TRUE(test::rows_in(pieces, options.strategy) <= budget || pieces.size() == 1)
              << "seed " << seed << ", budget " << budget;
        }
      }
    }
  }
}

}  // namespace
}  // namespace packtrain::layouts_test

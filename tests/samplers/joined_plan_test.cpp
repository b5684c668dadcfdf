// Plans of several stores whose steps are assigned together.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "samplers/planner.h"
#include "tests/samplers/lengths.h"

namespace packtrain::test {
namespace {

constexpr std::int32_t kLongest = 300;

struct Drawn {
  std::vector<Examples> examples;
  std::vector<PlanOptions> options;  // of each plan; the layout of the first holds

  std::unique_ptr<Planner> planner(std::size_t p) const {
    static const EveryTokenCounts counter;
    return std::make_unique<Planner>(examples[p].lengths, examples[p].num_loss_tokens, counter,
                                     options[p]);
  }
  std::int64_t first_example(std::size_t p) const {
    std::int64_t first = 0;
    for (std::size_t before = 0; before < p; ++before) {
      first += std::ssize(examples[before].lengths);
    }
    return first;
  }
  std::int64_t num_steps(std::size_t p) const { return planner(p)->num_steps(2); }

  std::unique_ptr<Planner> joined() const {
    std::vector<JoinedPlan> others;
    for (std::size_t p = 1; p < examples.size(); ++p) {
      others.push_back({planner(p), first_example(p), num_steps(p)});
    }
    auto first = planner(0);
    first->join(std::move(others), num_steps(0));
    return first;
  }
};

Drawn draw(std::uint64_t seed) {
  const CounterRandom random(seed, "test joined plans");
  Drawn drawn;
  for (std::uint64_t p = 0; p < 2 + random.below(0, 3); ++p) {
    drawn.examples.push_back(draw_examples(10 * seed + p, 20 + 15 * p, kLongest));
    PlanOptions options = draw_options_with_packs(seed, kLongest);
    if (options.global_batch_size > 0) options.global_batch_size += static_cast<std::int64_t>(p);
    drawn.options.push_back(options);
  }
  return drawn;
}

// Those of one part of a plan, numbered as in its own store.
std::vector<std::int64_t> examples_of_part(const StepPlan& plan, std::size_t part) {
  std::vector<std::int64_t> own;
  for (const std::int64_t example : examples_in(plan)) {
    if (part_of(plan.parts, example) == part) {
      own.push_back(example - plan.parts[part].first_example);
    }
  }
  return own;
}

TEST(JoinedPlan, AStepHasTheExamplesAndCountsOfEachPlansOwnStep) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Drawn drawn = draw(seed);
    const auto joined = drawn.joined();
    for (std::int64_t step = 0; step < drawn.num_steps(0) + 3; ++step) {
      const StepPlan plan = joined->plan(step);
      ASSERT_EQ(plan.parts.size(), drawn.examples.size());
      std::int64_t num_tokens = 0;
      for (std::size_t p = 0; p < plan.parts.size(); ++p) {
        const bool is_over = step >= drawn.num_steps(p);
        const StepPlan own = is_over ? StepPlan{} : drawn.planner(p)->plan(step);
        EXPECT_EQ(examples_of_part(plan, p), examples_in(own)) << "seed " << seed;
        EXPECT_EQ(plan.parts[p].counts.num_examples, own.num_examples);
        EXPECT_EQ(plan.parts[p].counts.loss_token_weight, own.loss_token_weight);
        num_tokens += own.num_tokens;
      }
      EXPECT_EQ(plan.num_tokens, num_tokens);
    }
  }
}

TEST(JoinedPlan, AMicroBatchHasTheExamplesOfOnePlanAfterAnotherWithinTheBudget) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Drawn drawn = draw(seed);
    const auto joined = drawn.joined();
    const PlanOptions& options = drawn.options.front();
    for (std::int64_t step = 0; step < drawn.num_steps(0); ++step) {
      const StepPlan plan = joined->plan(step);
      for (const auto& micro_batches : plan.ranks) {
        EXPECT_EQ(std::ssize(micro_batches), plan.num_micro_batches());
        for (const MicroBatch& pieces : micro_batches) {
          EXPECT_LE(rows_in(pieces, options.strategy), options.max_tokens_per_micro_batch);
          EXPECT_TRUE(std::ranges::is_sorted(
              pieces, {}, [&](const Piece& piece) { return part_of(plan.parts, piece.example); }));
        }
      }
    }
  }
}

}  // namespace
}  // namespace packtrain::test

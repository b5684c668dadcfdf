// Rows of groups: what sharing saves, what it costs, and when tokens are compared.
#include "samplers/group_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "framework/data/store_groups.h"
#include "samplers/planner.h"
#include "samplers/statistics.h"
#include "tests/samplers/group_options.h"

namespace packtrain::group_units_test {
namespace {

using test::draw_groups;
using test::GroupStore;
using test::pair;

// A pair of 3 shared tokens and answers of 2 and 5 rows.
TEST(GroupUnits, CostOfAGroupIsThatOfItsSegments) {
  const GroupStore store(GroupKind::kPairs, {pair(4, 1, 4)});
  PlanOptions options = test::group_options(60);
  options.cost = {.linear = 2, .quadratic = 0.5, .constant = 0};
  const StepPlan plan = Planner(store, options).plan(0);
  double cost = 0;
  for_each_segment(plan.ranks[0][0], [&](std::span<const Piece>, const AttentionSegment& segment) {
    cost += options.cost.of_segment(segment);
  });
  const double rows = 3 + 2 + 5;
  const double squares = 9 + (25 - 9) + (64 - 9);
  EXPECT_DOUBLE_EQ(cost, 2 * rows + 0.5 * squares);
  EXPECT_EQ(plan.num_tokens, 10);
  EXPECT_DOUBLE_EQ(plan_statistics(plan, options.cost, 20, 1).fill, 0.5);
}

TEST(GroupUnits, OfStepsOfACountAreComparedWhenTheyArePlanned) {
  const GroupStore store(GroupKind::kPairs, draw_groups(2, 100, 40, GroupKind::kPairs));
  PlanOptions options = test::group_options(40);
  options.global_batch_size = 5;
  const Planner planner(store, options);
  EXPECT_EQ(planner.num_steps(3), 60);
  EXPECT_EQ(store.num_masks_asked(), 0);
  planner.plan(0);
  EXPECT_LE(store.num_masks_asked(), 5 * 3);
}

TEST(GroupUnits, SeveralThreadsFindTheSamePrefixes) {
  const GroupStore store(GroupKind::kPairs, draw_groups(2, 10'000, 30, GroupKind::kPairs));
  const GroupUnits together(store, true);
  together.find_prefixes();
  for (std::int64_t g = 0; g < 10'000; ++g) {
    const auto shared = num_shared_tokens(store, store.groups()->group(g));
    ASSERT_EQ(together.num_prefix_tokens(g), std::max<std::int64_t>(0, shared - 1));
  }
}

}  // namespace
}  // namespace packtrain::group_units_test

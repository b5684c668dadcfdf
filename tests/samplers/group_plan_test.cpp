// Plans of stores with groups: a group is one unit, and what its examples share is computed once.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "framework/data/store_groups.h"
#include "samplers/planner.h"
#include "samplers/statistics.h"
#include "tests/samplers/group_options.h"
#include "tests/samplers/group_store.h"
#include "tests/samplers/lengths.h"

namespace packtrain::group_plan_test {
namespace {

using test::draw_group_case;
using test::draw_groups;
using test::GroupCase;
using test::groups_in;
using test::GroupStore;
using test::pair;

constexpr std::uint64_t kNumDraws = 120;

template <typename Visit>
void for_each_micro_batch(const StepPlan& plan, Visit&& visit) {
  for (const auto& rank : plan.ranks) {
    for (const MicroBatch& micro_batch : rank) visit(micro_batch);
  }
}

TEST(GroupPlan, EveryGroupIsWholeInOneMicroBatchAndOnceInAnEpoch) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const GroupCase drawn = draw_group_case(seed);
    const Planner planner(drawn.store, drawn.options);
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<std::int64_t> groups;
      for (std::int64_t s = planner.num_steps(epoch); s < planner.num_steps(epoch + 1); ++s) {
        for_each_micro_batch(planner.plan(s), [&](const MicroBatch& micro_batch) {
          const auto found = groups_in(drawn.store, micro_batch);
          groups.insert(groups.end(), found.begin(), found.end());
        });
      }
      std::ranges::sort(groups);
      ASSERT_EQ(std::ssize(groups), drawn.store.info().groups->num_groups) << "seed " << seed;
      for (std::size_t g = 0; g < groups.size(); ++g) ASSERT_EQ(groups[g], g) << "seed " << seed;
    }
  }
}

TEST(GroupPlan, NoMicroBatchHasMoreRowsThanTheBudget) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const GroupCase drawn = draw_group_case(seed);
    const Planner planner(drawn.store, drawn.options);
    for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
      const StepPlan plan = planner.plan(step);
      for_each_micro_batch(plan, [&](const MicroBatch& micro_batch) {
        ASSERT_LE(test::rows_in(micro_batch, drawn.options.strategy),
                  drawn.options.max_tokens_per_micro_batch)
            << "seed " << seed;
      });
      for (const auto& rank : plan.ranks) ASSERT_EQ(std::ssize(rank), plan.num_micro_batches());
    }
  }
}

// The tokens of an example are those of its own piece, after the shared ones.
TEST(GroupPlan, HasEveryTokenOnceAndASharedOneOnceAGroup) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const GroupCase drawn = draw_group_case(seed);
    const ExampleGroups& groups = *drawn.store.groups();
    const Planner planner(drawn.store, drawn.options);
    for_each_micro_batch(planner.plan(0), [&](const MicroBatch& micro_batch) {
      std::int32_t prefix = 0;
      for (const Piece& piece : micro_batch) {
        const std::int64_t number = groups.group_of(piece.example);
        const auto shared = num_shared_tokens(drawn.store, groups.group(number)) - 1;
        const bool shares = planner.options().share_prefixes && shared > 0;
        ASSERT_EQ(piece.after_prefix, shares && !piece.is_prefix);
        if (piece.is_prefix) prefix = piece.length;
        ASSERT_TRUE(piece.with_previous || piece.is_prefix == shares);
        ASSERT_EQ(piece.begin, piece.after_prefix ? prefix : 0);
        const std::int64_t end = piece.begin + piece.length;
        ASSERT_EQ(end, piece.is_prefix
                           ? shared
                           : drawn.store.lengths()[static_cast<std::size_t>(piece.example)]);
      }
    });
  }
}

// Of a step, computed from the store.
StepCounts counts_of(const GroupStore& store, const StepPlan& plan) {
  StepCounts counts;
  for_each_micro_batch(plan, [&](const MicroBatch& micro_batch) {
    counts.num_groups += std::ssize(groups_in(store, micro_batch));
    for (const Piece& piece : micro_batch) {
      counts.num_tokens += piece.length;
      if (piece.is_prefix) continue;
      const double weight = store.loss_weights().of(piece.example);
      const auto labels = store.num_loss_tokens()[static_cast<std::size_t>(piece.example)];
      ++counts.num_examples;
      counts.num_loss_tokens += labels;
      if (is_learned(store.groups()->role(piece.example))) {
        counts.example_weight += weight;
        counts.loss_token_weight += weight * labels;
      }
    }
    for (const std::int64_t group : groups_in(store, micro_batch)) {
      counts.group_weight += store.loss_weights().of(store.groups()->group(group).first_example);
    }
  });
  return counts;
}

TEST(GroupPlan, CountsAreThoseOfTheStep) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const GroupCase drawn = draw_group_case(seed);
    const Planner planner(drawn.store, drawn.options);
    const std::int64_t last = planner.num_steps(1) - 1;
    for (std::int64_t step = 0; step <= last; ++step) {
      const StepPlan plan = planner.plan(step);
      const StepCounts counts = counts_of(drawn.store, plan);
      EXPECT_EQ(plan.num_groups, counts.num_groups);
      EXPECT_EQ(plan.num_examples, counts.num_examples);
      EXPECT_EQ(plan.num_tokens, counts.num_tokens);
      EXPECT_EQ(plan.num_loss_tokens, counts.num_loss_tokens);
      EXPECT_DOUBLE_EQ(plan.example_weight, counts.example_weight);
      EXPECT_DOUBLE_EQ(plan.loss_token_weight, counts.loss_token_weight);
      EXPECT_DOUBLE_EQ(plan.group_weight, counts.group_weight);
      const auto size = drawn.options.global_batch_size;
      EXPECT_TRUE(step == last || size == 0 || plan.num_groups == size);
      if (size == 0 && plan.num_groups > 1) {
        EXPECT_LE(plan.num_tokens, drawn.options.global_batch_tokens);
      }
    }
  }
}

std::vector<std::int64_t> groups_of(const GroupStore& store, const StepPlan& plan) {
  std::vector<std::int64_t> groups;
  for_each_micro_batch(plan, [&](const MicroBatch& micro_batch) {
    const auto found = groups_in(store, micro_batch);
    groups.insert(groups.end(), found.begin(), found.end());
  });
  std::ranges::sort(groups);
  return groups;
}

TEST(GroupPlan, GroupsOfAStepDependNeitherOnRanksNorOnSharingNorOnStrategy) {
  const GroupStore store(GroupKind::kPairs, draw_groups(1, 90, 60, GroupKind::kPairs));
  PlanOptions options = test::group_options(60);
  options.global_batch_size = 20;
  const Planner reference(store, options);
  for (const Strategy strategy :
       {Strategy::kPadding, Strategy::kPaddingFree, Strategy::kBalanced}) {
    for (const int num_ranks : {1, 3, 16}) {
      for (const bool shares : {true, false}) {
        options.strategy = strategy;
        options.num_ranks = num_ranks;
        options.share_prefixes = shares;
        const Planner planner(store, options);
        for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
          const StepPlan plan = planner.plan(step);
          const StepPlan expected = reference.plan(step);
          ASSERT_EQ(groups_of(store, plan), groups_of(store, expected));
          ASSERT_EQ(plan.group_weight, expected.group_weight);
          ASSERT_EQ(plan.loss_token_weight, expected.loss_token_weight);
        }
      }
    }
  }
}

TEST(GroupPlan, OfGroupsOfOneExampleIsThatOfAPlainStore) {
  const auto groups = draw_groups(5, 80, 60, GroupKind::kJudged);
  std::vector<test::MemoryExample> examples;
  for (const test::MemoryGroup& group : groups) examples.push_back(group.members[0].example);
  const GroupStore store(GroupKind::kJudged, groups);
  const test::MemoryStore plain(examples);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const PlanOptions options = test::draw_options_with_packs(seed, 60);
    const Planner planner(store, options);
    const Planner expected(plain, options);
    ASSERT_EQ(planner.num_steps(2), expected.num_steps(2));
    for (std::int64_t step = 0; step < planner.num_steps(2); ++step) {
      ASSERT_EQ(planner.plan(step).ranks, expected.plan(step).ranks) << seed;
    }
  }
}

// Three pairs cost as much as nine of the others, so that a balanced step of two ranks is even.
TEST(GroupPlan, BalancedPlacesGroupsByTheirCost) {
  std::vector<test::MemoryGroup> groups(2, pair(41, 10, 10));
  for (int g = 0; g < 8; ++g) groups.push_back(pair(11, 5, 5));
  const GroupStore store(GroupKind::kPairs, groups);
  PlanOptions options = test::group_options(200);
  options.num_ranks = 2;
  options.global_batch_size = 10;
  options.max_tokens_per_micro_batch = 1000;
  const StepPlan plan = Planner(store, options).plan(0);
  EXPECT_DOUBLE_EQ(plan_statistics(plan, options.cost, 1000, 1).cost_imbalance, 1.0);
}

TEST(GroupPlan, ALoweredBudgetDividesPacksOnlyBetweenGroups) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const GroupCase drawn = draw_group_case(seed);
    Planner planner(drawn.store, drawn.options);
    const Planner whole(drawn.store, drawn.options);
    planner.set_layouts(std::vector<PlanLayout>{{0, 10, drawn.options.cost, {}}});
    for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
      const StepPlan plan = planner.plan(step);
      ASSERT_EQ(groups_of(drawn.store, plan), groups_of(drawn.store, whole.plan(step)));
      for_each_micro_batch(plan, [&](const MicroBatch& micro_batch) {
        const auto groups = groups_in(drawn.store, micro_batch);
        const auto rows = test::rows_in(micro_batch, drawn.options.strategy);
        ASSERT_TRUE(groups.size() <= 1 || rows <= 10);
      });
    }
  }
}

TEST(GroupPlan, ContinuesAfterTheGroupsThatWereTrained) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const GroupCase drawn = draw_group_case(seed);
    const Planner first(drawn.store, drawn.options);
    const std::int64_t done = first.num_steps(1) / 2;
    PlanOptions other = test::group_options(60);
    other.global_batch_size = 7;
    other.max_tokens_per_micro_batch = 6 * 60;
    const Planner second(drawn.store, other, first.start_at(done));
    std::vector<std::int64_t> groups;
    const auto add = [&](const Planner& planner, std::int64_t begin, std::int64_t end) {
      for (std::int64_t step = begin; step < end; ++step) {
        const auto found = groups_of(drawn.store, planner.plan(step));
        groups.insert(groups.end(), found.begin(), found.end());
      }
    };
    add(first, 0, done);
    add(second, done, second.num_steps(1));
    std::ranges::sort(groups);
    ASSERT_EQ(std::ssize(groups), drawn.store.info().groups->num_groups) << "seed " << seed;
    ASSERT_EQ(std::ranges::adjacent_find(groups), groups.end()) << "seed " << seed;
  }
}

TEST(GroupPlan, OfSeveralStoresKeepsTheWholeGroupsOfEach) {
  const GroupStore a(GroupKind::kPairs, draw_groups(1, 30, 40, GroupKind::kPairs));
  const GroupStore b(GroupKind::kPairs, draw_groups(2, 20, 40, GroupKind::kPairs));
  PlanOptions options = test::group_options(40);
  options.global_batch_size = 8;
  options.num_ranks = 2;
  Planner joined(a, options);
  std::vector<JoinedPlan> others;
  others.push_back({std::make_unique<Planner>(b, options), 60, 3});
  joined.join(std::move(others), 4);
  const StepPlan plan = joined.plan(0);
  ASSERT_EQ(plan.parts.size(), 2U);
  EXPECT_EQ(plan.num_groups, 16);
  EXPECT_EQ(plan.parts[1].counts.num_groups, 8);
  EXPECT_EQ(plan.parts[1].counts.group_weight, 8);
  for_each_micro_batch(plan, [&](const MicroBatch& micro_batch) {
    for_each_unit(std::span<const Piece>(micro_batch), [&](std::span<const Piece> unit) {
      const auto num_examples = std::ranges::count_if(unit, counts_example);
      EXPECT_EQ(num_examples, 2);
      EXPECT_EQ(unit.back().example, unit.front().example + 1);
    });
  });
}

}  // namespace
}  // namespace packtrain::group_plan_test

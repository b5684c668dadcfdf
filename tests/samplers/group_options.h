// Drawn stores of groups with options of their plans.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "samplers/planner.h"
#include "tests/samplers/group_store.h"

namespace packtrain::test {

// A budget for any group of two examples of `longest` tokens.
inline PlanOptions group_options(std::int32_t longest) {
  PlanOptions options;
  options.max_length = longest;
  options.max_tokens_per_micro_batch = 2 * longest;
  options.micro_batch_size = 1;
  options.cost = {.linear = 1, .quadratic = 0.01, .constant = 0};
  return options;
}

struct GroupCase {
  GroupStore store;
  PlanOptions options;
};

// Pairs, or groups of up to six answers; each strategy, shared or not.
inline GroupCase draw_group_case(std::uint64_t seed) {
  constexpr std::int32_t kLongest = 60;
  const CounterRandom random(seed, "group cases");
  const bool are_pairs = random.below(0, 2) == 0;
  const auto count = 1 + static_cast<std::int64_t>(random.below(1, 60));
  const std::uint64_t most_examples = are_pairs ? 2 : 6;
  const GroupKind kind = are_pairs ? GroupKind::kPairs : GroupKind::kRollouts;
  PlanOptions options = group_options(kLongest);
  constexpr std::array kStrategies = {Strategy::kPadding, Strategy::kPaddingFree,
                                      Strategy::kBalanced, Strategy::kMultipack};
  constexpr std::array kOrders = {OrderKind::kSequential, OrderKind::kRandom,
                                  OrderKind::kGroupByLength};
  options.strategy = kStrategies[random.below(2, kStrategies.size())];
  options.order = kOrders[random.below(3, kOrders.size())];
  options.micro_batch_size = 1 + static_cast<std::int64_t>(random.below(4, 4));
  const auto most_rows = static_cast<std::int64_t>(most_examples) * kLongest;
  options.max_tokens_per_micro_batch = most_rows * options.micro_batch_size;
  options.global_batch_size = 1 + static_cast<std::int64_t>(random.below(5, 20));
  if (traits_of(options.strategy).counts_tokens()) {
    options.order = OrderKind::kRandom;
    options.global_batch_size = 0;
    options.global_batch_tokens =
        options.max_tokens_per_micro_batch * (1 + static_cast<std::int64_t>(random.below(6, 4)));
    options.packing_window = 1 + static_cast<std::int64_t>(random.below(7, 30));
  }
  options.share_prefixes = random.below(8, 3) > 0;
  options.num_ranks = 1 + static_cast<int>(random.below(9, 5));
  options.seed = seed;
  const LossWeights weights = seed % 2 == 0 ? LossWeights() : LossWeights({{0, 1.0}, {2, 0.5}});
  return {GroupStore(kind, draw_groups(seed, count, kLongest, kind, most_examples),
                     are_pairs ? weights : LossWeights()),
          options};
}

// The groups of a micro-batch. Fails where one is not whole.
inline std::vector<std::int64_t> groups_in(const TokenStore& store, const MicroBatch& pieces) {
  std::vector<std::int64_t> groups;
  for_each_unit(std::span<const Piece>(pieces), [&](std::span<const Piece> unit) {
    const std::int64_t number = store.groups()->group_of(unit.front().example);
    const ExampleGroup group = store.groups()->group(number);
    std::int64_t next = group.first_example;
    for (const Piece& piece : unit) {
      if (!counts_example(piece)) continue;
      EXPECT_EQ(piece.example, next++);
    }
    EXPECT_EQ(next, group.first_example + group.num_examples);
    groups.push_back(number);
  });
  return groups;
}

}  // namespace packtrain::test

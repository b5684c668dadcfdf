// Drawn inputs for the property tests of the samplers: lengths, label counts, options.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "framework/core/random.h"
#include "samplers/planner.h"

namespace packtrain::test {

// Every token but the first is a label.
class EveryTokenCounts final : public LossCounter {
 public:
  std::int64_t loss_tokens_before(std::int64_t, std::int32_t num_tokens) const override {
    return num_tokens - 1;
  }
};

struct Examples {
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> num_loss_tokens;
};

inline Examples examples_of(std::vector<std::int32_t> lengths) {
  Examples examples{std::move(lengths), {}};
  for (const std::int32_t length : examples.lengths) {
    examples.num_loss_tokens.push_back(std::max(length - 1, 0));
  }
  return examples;
}

// Lengths of at least 2 tokens: lognormal, uniform, bimodal, all equal, or with one giant.
inline Examples draw_examples(std::uint64_t seed, std::int64_t count, std::int32_t longest) {
  const CounterRandom random(seed, "test lengths");
  const std::uint64_t kind = random.below(0, 5);
  std::vector<std::int32_t> lengths;
  for (std::uint64_t i = 1; i <= static_cast<std::uint64_t>(count); ++i) {
    double length = 20;
    if (kind == 0) length = std::exp(4.0 + random.normal(i));
    if (kind == 1) length = 2 + random.uniform(2 * i) * longest;
    if (kind == 2) length = random.uniform(2 * i) < 0.9 ? 10 : longest - 5;
    if (kind == 3 && i == 1) length = longest;
    lengths.push_back(std::clamp(static_cast<std::int32_t>(length), 2, longest));
  }
  return examples_of(std::move(lengths));
}

// Options under which every draw is plannable, of a strategy whose steps are those of the order.
inline PlanOptions draw_options(std::uint64_t seed, std::int32_t longest) {
  const CounterRandom random(seed, "test options");
  PlanOptions options;
  constexpr std::array kStrategies = {Strategy::kPadding, Strategy::kPaddingFree,
                                      Strategy::kBalanced};
  options.strategy = kStrategies[random.below(0, kStrategies.size())];
  constexpr std::array kOrders = {OrderKind::kSequential, OrderKind::kRandom,
                                  OrderKind::kGroupByLength};
  options.order = kOrders[random.below(1, kOrders.size())];
  options.max_length = longest;
  options.global_batch_size = 1 + static_cast<std::int64_t>(random.below(2, 40));
  if (random.below(8, 3) == 0 && options.order != OrderKind::kGroupByLength) {
    options.global_batch_size = 0;
    options.global_batch_tokens = 1 + static_cast<std::int64_t>(random.below(9, 20'000));
  }
  options.micro_batch_size = 1 + static_cast<std::int64_t>(random.below(3, 5));
  options.max_tokens_per_micro_batch = longest + static_cast<std::int64_t>(random.below(4, 1000));
  if (options.strategy != Strategy::kBalanced) {
    options.max_tokens_per_micro_batch = longest * options.micro_batch_size;
  }
  options.seed = random.bits(5);
  options.num_ranks = 1 + static_cast<int>(random.below(6, 9));
  options.cost = {.linear = 1.0, .quadratic = random.uniform(7) / 1000, .constant = 0.0};
  return options;
}

// Draws options of any strategy that keeps examples whole, multipack included.
inline PlanOptions draw_options_with_packs(std::uint64_t seed, std::int32_t longest) {
  PlanOptions options = draw_options(seed, longest);
  const CounterRandom random(seed, "test packs");
  if (random.below(0, 3) > 0) return options;
  options.strategy = Strategy::kMultipack;
  if (options.order == OrderKind::kGroupByLength) options.order = OrderKind::kRandom;
  options.global_batch_size = 0;
  options.global_batch_tokens =
      options.max_tokens_per_micro_batch * (1 + static_cast<std::int64_t>(random.below(1, 9)));
  options.packing_window = 1 + static_cast<std::int64_t>(random.below(2, 100));
  return options;
}

// Indices of the examples of a plan, ascending; an example shows up as often as it has pieces.
inline std::vector<std::int64_t> examples_in(const StepPlan& plan) {
  std::vector<std::int64_t> examples;
  for (const auto& rank : plan.ranks) {
    for (const MicroBatch& micro_batch : rank) {
      for (const Piece& piece : micro_batch) examples.push_back(piece.example);
    }
  }
  std::ranges::sort(examples);
  return examples;
}

inline std::int64_t tokens_in(const MicroBatch& micro_batch) {
  std::int64_t tokens = 0;
  for (const Piece& piece : micro_batch) tokens += piece.length;
  return tokens;
}

// Rows of the budget that a micro-batch takes: pads count.
inline std::int64_t rows_in(const MicroBatch& micro_batch, Strategy strategy) {
  if (!traits_of(strategy).pads_to_longest || micro_batch.empty()) return tokens_in(micro_batch);
  const auto longest = std::ranges::max_element(micro_batch, {}, &Piece::length);
  return std::ssize(micro_batch) * longest->length;
}

}  // namespace packtrain::test

#include "samplers/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "framework/support/error.h"
#include "samplers/order.h"
#include "samplers/strategies/strategy.h"

namespace packtrain {
namespace {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

void check_range(const char* name, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return;
  throw Error(ErrorCategory::kConfig,
              fmt::format("{} must be between 1 and {}, got {}", name, most, value));
}

PlanOptions checked(const PlanOptions& options) {
  check_range("data.max_length", options.max_length, kInt32Max);
  check_range("batch.global_batch_size", options.global_batch_size, kInt32Max);
  check_range("batch.micro_batch_size", options.micro_batch_size, kInt32Max);
  // Rows of a batch are numbered in 32 bits.
  check_range("batch.max_tokens_per_micro_batch", options.max_tokens_per_micro_batch, kInt32Max);
  check_range("the number of ranks", options.num_ranks, kInt32Max);
  return options;
}

void check_examples_fit(const Selection& selection, std::int64_t max_tokens) {
  const auto longest = std::ranges::max_element(
      selection.examples(), {},
      [&](ExampleIndex example) { return selection.piece_length(example); });
  const std::int32_t length = selection.piece_length(*longest);
  if (length <= max_tokens) return;
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("example {} has {} tokens, more than batch.max_tokens_per_micro_batch = {}",
                  *longest, length, max_tokens),
      fmt::format("Set batch.max_tokens_per_micro_batch to {} or more, or data.max_length to {} or "
                  "less with data.too_long: truncate, split or drop.",
                  length, max_tokens));
}

}  // namespace

struct Planner::State {
  State(std::span<const std::int32_t> lengths, std::span<const std::int32_t> num_loss_tokens,
        const LossCounter& counter, const PlanOptions& unchecked)
      : options(checked(unchecked)),
        selection(lengths, num_loss_tokens, counter, options.too_long, options.max_length),
        orders({options.order, options.seed, options.global_batch_size, selection}),
        strategy(find_strategy(options.strategy)) {
    check_examples_fit(selection, options.max_tokens_per_micro_batch);
    strategy.check(selection, options);
  }

  PlanOptions options;
  Selection selection;
  EpochOrders orders;
  const StrategyEntry& strategy;
};

Planner::Planner(std::span<const std::int32_t> lengths,
                 std::span<const std::int32_t> num_loss_tokens, const LossCounter& counter,
                 const PlanOptions& options)
    : state_(std::make_unique<State>(lengths, num_loss_tokens, counter, options)) {}

Planner::~Planner() = default;

std::int64_t Planner::steps_per_epoch() const {
  const std::int64_t size = state_->options.global_batch_size;
  return (std::ssize(state_->selection.examples()) + size - 1) / size;
}

const PlanLosses& Planner::losses() const {
  return state_->selection.losses();
}

const PlanOptions& Planner::options() const {
  return state_->options;
}

StepPlan Planner::plan(std::int64_t step) const {
  if (step < 0) {
    throw Error(ErrorCategory::kInternal, fmt::format("plan: step {} is negative", step));
  }
  const std::int64_t epoch = step / steps_per_epoch();
  const auto size = static_cast<std::size_t>(state_->options.global_batch_size);
  const auto order = state_->orders.of_epoch(epoch);
  const auto first = static_cast<std::size_t>(step % steps_per_epoch()) * size;
  const auto examples = std::span(*order).subspan(first, std::min(size, order->size() - first));

  StepPlan plan;
  plan.step = step;
  plan.epoch = epoch;
  plan.num_examples = std::ssize(examples);
  std::vector<Piece> pieces;
  pieces.reserve(examples.size());
  for (const ExampleIndex example : examples) {
    state_->selection.append_pieces(example, pieces);
    plan.num_tokens += state_->selection.length(example);
    plan.num_loss_tokens += state_->selection.num_loss_tokens(example);
  }
  plan.ranks = state_->strategy.assign(pieces, state_->options);
  return plan;
}

}  // namespace packtrain

#include "samplers/evaluation_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "framework/core/error.h"
#include "samplers/batches/group_steps.h"
#include "samplers/group_selection.h"
#include "samplers/selection.h"
#include "samplers/step_counts.h"
#include "samplers/strategies/strategy.h"

namespace packtrain {
namespace {

// Examples are numbered in 32 bits.
void check_number(std::size_t num_examples) {
  constexpr std::size_t kMost = std::numeric_limits<ExampleIndex>::max();
  if (num_examples <= kMost) return;
  throw Error(ErrorCategory::kData,
              fmt::format("the validation store has {} examples, at most {} can be evaluated",
                          num_examples, kMost),
              "Evaluate a part of it: `packtrain prepare --max-examples` or another split.");
}

std::vector<ExampleIndex> longest_first(const ExampleCounts& lengths) {
  std::vector<ExampleIndex> examples;
  for (std::size_t example = 0; example < lengths.size(); ++example) {
    if (lengths[example] > 0) examples.push_back(static_cast<ExampleIndex>(example));
  }
  std::ranges::stable_sort(examples, std::ranges::greater{},
                           [&](ExampleIndex example) { return lengths[example]; });
  return examples;
}

void check(std::span<const ExampleIndex> examples, const ExampleCounts& lengths,
           std::int64_t num_loss_tokens, std::int64_t max_tokens) {
  if (num_loss_tokens == 0) {
    throw Error(ErrorCategory::kData,
                fmt::format("no example to evaluate on: none of {} has a label", lengths.size()),
                "Check data.validation and its loss mask.");
  }
  const ExampleIndex longest = examples.front();
  if (lengths[longest] > max_tokens) {
    throw Error(
        ErrorCategory::kConfig,
        fmt::format("example {} of the validation store has {} tokens, more than "
                    "batch.max_tokens_per_micro_batch = {}",
                    longest, lengths[longest], max_tokens),
        fmt::format("Set batch.max_tokens_per_micro_batch to {} or more.", lengths[longest]));
  }
}

// Next fit: a new micro-batch starts when the next example does not fit.
std::vector<MicroBatch> fill(std::span<const ExampleIndex> examples, const ExampleCounts& lengths,
                             std::int64_t max_tokens) {
  std::vector<MicroBatch> micro_batches;
  std::int64_t free_tokens = 0;
  for (const ExampleIndex example : examples) {
    if (lengths[example] > free_tokens || micro_batches.empty()) {
      micro_batches.emplace_back();
      free_tokens = max_tokens;
    }
    micro_batches.back().push_back({.example = example, .length = lengths[example]});
    free_tokens -= lengths[example];
  }
  return micro_batches;
}

// Gives the micro-batches to the ranks in turn.
Assignment dealt(std::vector<MicroBatch> micro_batches, int num_ranks) {
  const std::int64_t rounds = (std::ssize(micro_batches) + num_ranks - 1) / num_ranks;
  Assignment assignment = empty_assignment(num_ranks, rounds);
  const auto ranks = static_cast<std::size_t>(num_ranks);
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    assignment[i % ranks][i / ranks] = std::move(micro_batches[i]);
  }
  return assignment;
}

std::int64_t lowered_budget(std::int64_t max_tokens, std::int64_t lowered) {
  return lowered > 0 ? std::min(lowered, max_tokens) : max_tokens;
}

std::int64_t num_tokens_of(const MicroBatch& pieces) {
  std::int64_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.length;
  return sum;
}

StepPlan plan_groups(const TokenStore& store, bool share_prefixes, std::int64_t max_tokens,
                     int num_ranks, std::int64_t lowered) {
  const GroupUnits units(store, share_prefixes);
  units.find_prefixes();
  const StoreLossCounter counter(store);
  const Selection selection(units, counter, TooLong::kDrop,
                            std::numeric_limits<std::int32_t>::max());
  check_groups_fit(selection, max_tokens);
  std::vector<ExampleIndex> groups = selection.examples().table();
  std::ranges::stable_sort(groups, std::ranges::greater{},
                           [&](ExampleIndex group) { return selection.length(group); });
  StepPlan plan;
  std::vector<MicroBatch> micro_batches;
  StepPieces all;
  for (const MicroBatch& packed :
       fill(groups, units.lengths(), lowered_budget(max_tokens, lowered))) {
    StepPieces some;
    for (const Piece& group : packed) {
      some.append(selection, static_cast<ExampleIndex>(group.example));
    }
    some = with_pieces_of_groups(some, units);
    all.num_examples += some.num_examples;
    all.num_groups += some.num_groups;
    all.num_tokens += some.num_tokens;
    all.num_loss_tokens += some.num_loss_tokens;
    all.pieces.insert(all.pieces.end(), some.pieces.begin(), some.pieces.end());
    micro_batches.push_back(std::move(some.pieces));
  }
  static_cast<StepCounts&>(plan) = step_counts(selection, counter, all);
  plan.ranks = dealt(std::move(micro_batches), num_ranks);
  return plan;
}

}  // namespace

Assignment assign_runs(std::vector<MicroBatch> runs, std::int64_t max_tokens_per_micro_batch,
                       int num_ranks) {
  std::ranges::stable_sort(runs, std::ranges::greater{}, num_tokens_of);
  std::vector<MicroBatch> micro_batches;
  std::int64_t free_tokens = 0;
  for (const MicroBatch& run : runs) {
    const std::int64_t num_tokens = num_tokens_of(run);
    if (num_tokens > free_tokens || micro_batches.empty()) {
      micro_batches.emplace_back();
      free_tokens = max_tokens_per_micro_batch;
    }
    micro_batches.back().insert(micro_batches.back().end(), run.begin(), run.end());
    free_tokens -= num_tokens;
  }
  return dealt(std::move(micro_batches), num_ranks);
}

StepPlan plan_evaluation(const TokenStore& store, bool share_prefixes,
                         std::int64_t max_tokens_per_micro_batch, int num_ranks,
                         std::int64_t lowered) {
  if (store.groups() != nullptr) {
    return plan_groups(store, share_prefixes, max_tokens_per_micro_batch, num_ranks, lowered);
  }
  const StoreLossCounter counter(store);
  return plan_evaluation(store.lengths(), store.num_loss_tokens(), max_tokens_per_micro_batch,
                         num_ranks, &counter, lowered);
}

StepPlan plan_evaluation(const ExampleCounts& lengths, const ExampleCounts& num_loss_tokens,
                         std::int64_t max_tokens_per_micro_batch, int num_ranks,
                         const LossCounter* counter, std::int64_t lowered) {
  check_number(lengths.size());
  const std::vector<ExampleIndex> examples = longest_first(lengths);
  StepPlan plan;
  plan.num_examples = std::ssize(examples);
  for (const ExampleIndex example : examples) {
    plan.num_tokens += lengths[example];
    plan.num_loss_tokens += num_loss_tokens[example];
  }
  plan.example_weight = static_cast<double>(plan.num_examples);
  plan.loss_token_weight = static_cast<double>(plan.num_loss_tokens);
  if (counter != nullptr && counter->has_token_weights()) {
    plan.loss_token_weight = 0;
    for (const ExampleIndex example : examples) {
      plan.loss_token_weight += counter->label_weight(example, 1, lengths[example]);
    }
  }
  check(examples, lengths, plan.num_loss_tokens, max_tokens_per_micro_batch);

  plan.ranks = dealt(fill(examples, lengths, lowered_budget(max_tokens_per_micro_batch, lowered)),
                     num_ranks);
  return plan;
}

}  // namespace packtrain

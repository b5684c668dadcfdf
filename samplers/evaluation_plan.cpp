#include "samplers/evaluation_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "framework/core/error.h"
#include "samplers/selection.h"
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

}  // namespace

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

  const std::int64_t most =
      lowered > 0 ? std::min(lowered, max_tokens_per_micro_batch) : max_tokens_per_micro_batch;
  std::vector<MicroBatch> micro_batches = fill(examples, lengths, most);
  const std::int64_t rounds = (std::ssize(micro_batches) + num_ranks - 1) / num_ranks;
  plan.ranks = empty_assignment(num_ranks, rounds);
  const auto ranks = static_cast<std::size_t>(num_ranks);
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    plan.ranks[i % ranks][i / ranks] = std::move(micro_batches[i]);
  }
  return plan;
}

}  // namespace packtrain

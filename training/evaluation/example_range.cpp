#include "training/evaluation/example_range.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "samplers/evaluation_plan.h"

namespace packtrain {
namespace {

// The counts of some consecutive examples, numbered from 0.
class CountsOfRange final : public CountSource {
 public:
  CountsOfRange(const ExampleCounts& counts, const ExampleRange& range)
      : counts_(counts), range_(range) {}

  std::size_t size() const override { return static_cast<std::size_t>(range_.end - range_.first); }
  std::int32_t count(std::size_t example) const override {
    return counts_[static_cast<std::size_t>(range_.first) + example];
  }

 private:
  ExampleCounts counts_;
  ExampleRange range_;
};

// Weights of the labels of such examples.
class LabelsOfRange final : public LossCounter {
 public:
  LabelsOfRange(const TokenStore& store, const ExampleRange& range)
      : labels_(store), first_(range.first) {}

  std::int64_t loss_tokens_before(std::int64_t example, std::int32_t num_tokens) const override {
    return labels_.loss_tokens_before(first_ + example, num_tokens);
  }
  double label_weight(std::int64_t example, std::int32_t begin, std::int32_t end) const override {
    return labels_.label_weight(first_ + example, begin, end);
  }
  bool has_token_weights() const override { return labels_.has_token_weights(); }

 private:
  StoreLossCounter labels_;
  std::int64_t first_;
};

// Examples of one group from `first` on, before `end`: the prefix, and as many of them as
// `max_tokens` holds, at least one. One alone is whole.
MicroBatch shared_run(const GroupUnits& units, std::int64_t first, std::int64_t end,
                      std::int64_t max_tokens) {
  const ExampleCounts lengths = units.store().lengths();
  const std::int32_t prefix = units.num_prefix_tokens(units.store().groups()->group_of(first));
  const auto length = [&](std::int64_t e) { return lengths[static_cast<std::size_t>(e)]; };
  std::int64_t next = first + 1;
  for (std::int64_t rows = length(first); prefix > 0 && next < end; ++next) {
    rows += length(next) - prefix;
    if (rows > max_tokens) break;
  }
  if (next == first + 1) return {{.example = first, .length = length(first)}};
  MicroBatch pieces = {{.example = first, .length = prefix, .is_prefix = true}};
  for (std::int64_t e = first; e < next; ++e) {
    pieces.push_back(
        {.example = e, .begin = prefix, .length = length(e) - prefix, .after_prefix = true});
  }
  return pieces;
}

std::vector<MicroBatch> shared_runs(const ExampleRange& range, std::int64_t max_tokens) {
  const GroupUnits& units = *range.units;
  const ExampleGroups& groups = *units.store().groups();
  const ExampleCounts lengths = units.store().lengths();
  std::vector<MicroBatch> runs;
  for (std::int64_t e = range.first; e < range.end;) {
    if (lengths[static_cast<std::size_t>(e)] == 0) {
      ++e;
      continue;
    }
    const ExampleGroup group = groups.group(groups.group_of(e));
    const std::int64_t end = std::min(range.end, group.first_example + group.num_examples);
    runs.push_back(shared_run(units, e, end, max_tokens));
    e = runs.back().back().example + 1;
  }
  return runs;
}

}  // namespace

StepPlan plan_evaluation(const TokenStore& store, const ExampleRange& range,
                         std::int64_t max_tokens_per_micro_batch, int num_ranks,
                         std::int64_t lowered) {
  const CountsOfRange lengths(store.lengths(), range);
  const CountsOfRange labels(store.num_loss_tokens(), range);
  const LabelsOfRange counter(store, range);
  StepPlan plan =
      plan_evaluation(lengths, labels, max_tokens_per_micro_batch, num_ranks, &counter, lowered);
  for (auto& micro_batches : plan.ranks) {
    for (MicroBatch& pieces : micro_batches) {
      for (Piece& piece : pieces) piece.example += range.first;
    }
  }
  if (range.units == nullptr) return plan;
  const std::int64_t budget =
      lowered > 0 ? std::min(lowered, max_tokens_per_micro_batch) : max_tokens_per_micro_batch;
  plan.ranks = assign_runs(shared_runs(range, budget), budget, num_ranks);
  return plan;
}

}  // namespace packtrain

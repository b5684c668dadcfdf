#include "training/evaluation/example_range.h"

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
  return plan;
}

}  // namespace packtrain

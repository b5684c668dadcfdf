#include "training/evaluation/evaluator.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "collators/flattening.h"
#include "framework/core/logging.h"
#include "framework/device/tensor_memory.h"
#include "samplers/evaluation_plan.h"
#include "training/evaluation/smaller_batches.h"
#include "training/steps/row_losses.h"
#include "training/steps/upload.h"

namespace packtrain {
namespace {

// The device adds losses of this many micro-batches in float32. The host adds these sums in double.
constexpr std::size_t kMicroBatchesAtOnce = 4;

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

StepPlan plan_of(const TokenStore& store, const ExampleRange& range, std::int64_t max_tokens,
                 std::int64_t lowered, int num_ranks) {
  const CountsOfRange lengths(store.lengths(), range);
  const CountsOfRange labels(store.num_loss_tokens(), range);
  const LabelsOfRange counter(store, range);
  StepPlan plan = plan_evaluation(lengths, labels, max_tokens, num_ranks, &counter, lowered);
  for (auto& micro_batches : plan.ranks) {
    for (MicroBatch& pieces : micro_batches) {
      for (Piece& piece : pieces) {
        piece.example = static_cast<ExampleIndex>(range.first + piece.example);
      }
    }
  }
  return plan;
}

}  // namespace

Evaluator::Evaluator(const TokenStore& store, std::int64_t max_tokens_per_micro_batch,
                     Device& device, World& world, const ProcessMesh& mesh,
                     const EvaluatedAdapter& adapter)
    : store_(store),
      device_(device),
      world_(world),
      mesh_(mesh),
      adapter_(adapter),
      max_tokens_(max_tokens_per_micro_batch),
      budget_(max_tokens_per_micro_batch),
      range_{0, store.info().num_examples},
      plan_(plan_of(store, range_, max_tokens_, 0, mesh.data_parallel_size())) {}

Evaluator Evaluator::of_examples(std::int64_t first, std::int64_t end) const {
  Evaluator part = *this;
  part.range_ = {first, end};
  part.plan_ = plan_of(store_, part.range_, max_tokens_, budget_, mesh_.data_parallel_size());
  return part;
}

EvaluationRecord Evaluator::evaluate(ShardedModel& model, std::int64_t step,
                                     const std::function<bool()>& stop_requested,
                                     TokenScores* scores) {
  std::vector<double> found;
  while (found.empty()) {
    try {
      found = sums(model, stop_requested, scores);
    } catch (const EvaluationOutOfMemory& error) {
      replan_with_smaller_budget(error, step);
    }
  }
  EvaluationRecord record;
  record.step = step;
  record.loss = found.front() / plan_.loss_token_weight;
  record.perplexity = std::exp(record.loss);
  record.num_examples = plan_.num_examples;
  record.num_tokens = plan_.num_tokens;
  record.num_loss_tokens = plan_.num_loss_tokens;
  if (num_sources() > 1) {
    record.loss_by_source = mean_by_source(std::span(found).subspan(1), store_.info().sources);
  }
  return record;
}

void Evaluator::lower_budget(std::int64_t max_tokens) {
  if (max_tokens >= budget_) return;
  budget_ = max_tokens;
  plan_ = plan_of(store_, range_, max_tokens_, budget_, mesh_.data_parallel_size());
}

void Evaluator::replan_with_smaller_budget(const EvaluationOutOfMemory& error, std::int64_t step) {
  const std::int64_t lowered = smaller_budget(plan_, budget_);
  if (lowered == 0) throw does_not_fit("the evaluation", error);
  release_unused_tensor_memory(device_);
  if (world_.rank() == 0) {
    log_warning("the evaluation after step {}: {}: begins again with {} tokens a micro-batch", step,
                error.what(), lowered);
  }
  lower_budget(lowered);
}

std::vector<double> Evaluator::sums(ShardedModel& model,
                                    const std::function<bool()>& stop_requested,
                                    TokenScores* scores) {
  const auto num_micro_batches = static_cast<std::size_t>(plan_.num_micro_batches());
  std::vector<double> sums(num_sources() > 1 ? 1 + 2 * num_sources() : 1);
  if (scores != nullptr) scores->clear();
  CollectiveEvaluation joint(world_, stop_requested);
  for (std::size_t first = 0; first < num_micro_batches; first += kMicroBatchesAtOnce) {
    const at::Tensor part = sums_of(
        model, first, std::min(kMicroBatchesAtOnce, num_micro_batches - first), joint, scores);
    model.compute().take_waited();  // belongs to no step
    joint.agree();
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part.const_data_ptr<double>()[i];
  }
  world_.control().all_reduce(sums.data(), sums.size(), DataType::kFloat64, ReduceOp::kSum,
                              nullptr);
  return sums;
}

at::Tensor Evaluator::sums_of(ShardedModel& model, std::size_t first, std::size_t count,
                              CollectiveEvaluation& joint, TokenScores* scores) {
  const LossNormalization sum;  // each token has the weight of its mask byte
  CollatorOptions options;
  options.sources = num_sources() > 1;
  options.as_plain = true;
  std::vector<PackedBatch> packed;
  std::vector<DeviceBatch> batches;
  const at::Tensor total = joint.evaluate(model, count, [&] {
    const auto& own = plan_.ranks[mesh_.data_parallel_rank()];
    for (std::size_t m = first; m < first + count; ++m) {
      packed.push_back(flatten(store_, own[m], sum, options));
    }
    model.compute().run([&](StreamHandle) {
      for (const PackedBatch& batch : packed) {
        batches.push_back(upload(batch, device_));
        if (scores != nullptr) scores->request(batch, batches.back());
      }
      for (DeviceBatch& batch : batches) {
        set_adapter(adapter_, batch);
        batch.without_adapter = without_adapter_;
      }
      if (options.sources) request_row_losses(batches);
    });
    return std::span<DeviceBatch>(batches);
  });
  at::Tensor sums;
  joint.attempt([&] {
    model.compute().run([&](StreamHandle) {
      sums = total.reshape({1});
      if (options.sources) sums = at::cat({sums, sum_by_source(batches, num_sources())});
      sums = sums.to(at::kCPU, at::kDouble);
      if (scores != nullptr) scores->add(packed, batches);
    });
  });
  return sums;
}

}  // namespace packtrain

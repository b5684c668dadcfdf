#include "training/evaluation/evaluator.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "collators/flattening.h"
#include "framework/core/logging.h"
#include "framework/device/tensor_memory.h"
#include "samplers/evaluation_plan.h"
#include "training/evaluation/divergence.h"
#include "training/evaluation/smaller_batches.h"
#include "training/steps/mismatched_answers.h"
#include "training/steps/objective_sums.h"
#include "training/steps/row_losses.h"
#include "training/steps/upload.h"

namespace packtrain {
namespace {

// The device adds losses of this many micro-batches in float32. The host adds these sums in double.
constexpr std::size_t kMicroBatchesAtOnce = 4;

}  // namespace

Evaluator::Evaluator(const TokenStore& store, std::int64_t max_tokens_per_micro_batch,
                     Device& device, World& world, const ProcessMesh& mesh,
                     const EvaluatedAdapter& adapter, EvaluatedObjective objective)
    : store_(store),
      device_(device),
      world_(world),
      mesh_(mesh),
      adapter_(adapter),
      objective_(std::move(objective)),
      max_tokens_(max_tokens_per_micro_batch),
      budget_(max_tokens_per_micro_batch),
      range_{0, store.info().num_examples} {
  if (!has_objective() && objective_.share_prefixes) {
    range_.units = std::make_shared<const GroupUnits>(store_, /*share_prefixes=*/true);
    range_.units->find_prefixes();
  }
  make_plan();
}

Evaluator::Evaluator(const Evaluator& all, const ExampleRange& range)
    : store_(all.store_),
      device_(all.device_),
      world_(all.world_),
      mesh_(all.mesh_),
      adapter_(all.adapter_),
      objective_(all.objective_),
      reference_(all.reference_),
      without_adapter_(all.without_adapter_),
      max_tokens_(all.max_tokens_),
      budget_(all.budget_),
      range_(range) {
  make_plan();
}

Evaluator Evaluator::of_examples(std::int64_t first, std::int64_t end) const {
  return {*this, ExampleRange{first, end, range_.units}};
}

void Evaluator::make_plan() {
  const std::int64_t lowered = budget_ < max_tokens_ ? budget_ : 0;
  const int num_ranks = mesh_.data_parallel_size();
  if (has_objective()) {
    plan_ = plan_evaluation(store_, objective_.share_prefixes, max_tokens_, num_ranks, lowered);
    return;
  }
  plan_ = plan_evaluation(store_, range_, max_tokens_, num_ranks, lowered);
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
  record.num_examples = plan_.num_examples;
  record.num_groups = plan_.num_groups;
  record.num_tokens = plan_.num_tokens;
  record.num_loss_tokens = plan_.num_loss_tokens;
  std::span<const double> rest(found);
  if (has_objective()) {
    record.loss = found.front();  // the batches have the weights of a whole step
    record.objective =
        mean_statistics(rest.last(2 * num_statistics()), objective_.objective->statistics());
  } else {
    loss_sum_ = found.front();
    record.loss = loss_sum_ / loss_weight();
    record.perplexity = std::exp(record.loss);
  }
  if (num_sources() > 1) {
    record.loss_by_source = mean_by_source(rest.subspan(1), store_.info().sources);
  }
  return record;
}

std::size_t Evaluator::num_statistics() const {
  return has_objective() ? objective_.objective->statistics().size() : 0;
}

void Evaluator::lower_budget(std::int64_t max_tokens) {
  if (max_tokens >= budget_) return;
  budget_ = max_tokens;
  make_plan();
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
  const std::size_t num_by_source = num_sources() > 1 ? 2 * num_sources() : 0;
  std::vector<double> sums(1 + num_by_source + 2 * num_statistics());
  if (scores != nullptr) scores->clear();
  CollectiveEvaluation joint(world_, stop_requested);
  if (objective_.has_divergence) divergence_ = divergence(model, joint);
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

double Evaluator::divergence(ShardedModel& model, CollectiveEvaluation& joint) const {
  const auto mismatched = mismatched_batches(store_, shuffled_examples(plan_, objective_.seed),
                                             {.max_length = objective_.max_length,
                                              .max_tokens = budget_,
                                              .num_ranks = mesh_.data_parallel_size(),
                                              .rank = mesh_.data_parallel_rank()});
  return mean_divergence({&model, without_adapter_}, reference_.model, mismatched,
                         plan_.num_examples, device_, world_, joint);
}

PackedBatch Evaluator::collate(std::size_t micro_batch) const {
  CollatorOptions options;
  options.sources = num_sources() > 1;
  options.reference = reference_.log_probs;
  options.as_plain = !has_objective();
  // Without an objective each token has the weight of its mask byte.
  const LossNormalization normalization =
      has_objective() ? loss_normalization(plan_, objective_.normalize) : LossNormalization();
  const auto& own = plan_.ranks[mesh_.data_parallel_rank()];
  return flatten(store_, own[micro_batch], normalization, options);
}

std::vector<DeviceBatch> Evaluator::upload_batches(std::span<const PackedBatch> packed) const {
  std::vector<DeviceBatch> batches;
  for (const PackedBatch& batch : packed) {
    DeviceBatch& uploaded = batches.emplace_back(upload(batch, device_));
    set_adapter(adapter_, uploaded);
    uploaded.without_adapter = without_adapter_;
    if (!objective_.has_divergence) continue;
    uploaded.groups.kl = at::full({}, divergence_, uploaded.loss_weight.options());
  }
  return batches;
}

at::Tensor Evaluator::add_sums(const at::Tensor& total,
                               std::span<const DeviceBatch> batches) const {
  std::vector<at::Tensor> parts = {total.reshape({1}).to(at::kDouble)};
  if (num_sources() > 1) parts.push_back(sum_by_source(batches, num_sources()).to(at::kDouble));
  if (num_statistics() > 0) parts.push_back(sum_statistics(batches, *objective_.objective));
  return at::cat(parts).to(at::kCPU);
}

at::Tensor Evaluator::sums_of(ShardedModel& model, std::size_t first, std::size_t count,
                              CollectiveEvaluation& joint, TokenScores* scores) {
  std::vector<PackedBatch> packed;
  std::vector<DeviceBatch> batches;
  const auto make = [&] {
    for (std::size_t m = first; m < first + count; ++m) packed.push_back(collate(m));
    model.compute().run([&](StreamHandle) { batches = upload_batches(packed); });
  };
  if (reference_.model.model != nullptr) {
    joint.evaluate(*reference_.model.model, count, [&] {
      make();
      model.compute().run(
          [&](StreamHandle) { request_log_probs(batches, reference_.model.without_adapter); });
      return std::span<DeviceBatch>(batches);
    });
    joint.attempt([&] {
      model.compute().run([&](StreamHandle) { keep_as_reference(batches, without_adapter_); });
    });
  }
  const at::Tensor total = joint.evaluate(model, count, [&] {
    if (batches.empty()) make();
    model.compute().run([&](StreamHandle) {
      for (std::size_t i = 0; scores != nullptr && i < count; ++i)
        scores->request(packed[i], batches[i]);
      if (num_sources() > 1 || num_statistics() > 0) request_row_losses(batches);
    });
    return std::span<DeviceBatch>(batches);
  });
  at::Tensor sums;
  joint.attempt([&] {
    model.compute().run([&](StreamHandle) {
      sums = add_sums(total, batches);
      if (scores != nullptr) scores->add(packed, batches);
    });
  });
  return sums;
}

}  // namespace packtrain

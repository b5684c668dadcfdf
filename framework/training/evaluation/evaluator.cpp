#include "framework/training/evaluation/evaluator.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "collators/flattening.h"
#include "framework/training/steps/row_losses.h"
#include "framework/training/steps/upload.h"
#include "samplers/evaluation_plan.h"

namespace packtrain {
namespace {

// Micro-batches whose losses are added up on the device in float32; beyond, on the host in double.
constexpr std::size_t kMicroBatchesAtOnce = 4;

StepPlan plan_of(const TokenStore& store, std::int64_t max_tokens_per_micro_batch, int num_ranks) {
  const StoreLossCounter counter(store);
  return plan_evaluation(store.lengths(), store.num_loss_tokens(), max_tokens_per_micro_batch,
                         num_ranks, &counter);
}

}  // namespace

Evaluator::Evaluator(const TokenStore& store, std::int64_t max_tokens_per_micro_batch,
                     Device& device, World& world)
    : store_(store),
      device_(device),
      world_(world),
      plan_(plan_of(store, max_tokens_per_micro_batch, world.size())) {}

EvaluationRecord Evaluator::evaluate(ShardedModel& model, std::int64_t step) {
  const auto num_micro_batches = static_cast<std::size_t>(plan_.num_micro_batches());
  std::vector<double> sums(num_sources() > 1 ? 1 + 2 * num_sources() : 1);
  for (std::size_t first = 0; first < num_micro_batches; first += kMicroBatchesAtOnce) {
    const at::Tensor part =
        sums_of(model, first, std::min(kMicroBatchesAtOnce, num_micro_batches - first));
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part.const_data_ptr<double>()[i];
  }
  world_.control().all_reduce(sums.data(), sums.size(), DataType::kFloat64, ReduceOp::kSum,
                              nullptr);
  EvaluationRecord record;
  record.step = step;
  record.loss = sums.front() / plan_.loss_token_weight;
  record.perplexity = std::exp(record.loss);
  record.num_examples = plan_.num_examples;
  record.num_tokens = plan_.num_tokens;
  record.num_loss_tokens = plan_.num_loss_tokens;
  if (num_sources() > 1) {
    record.loss_by_source = mean_by_source(std::span(sums).subspan(1), store_.info().sources);
  }
  return record;
}

at::Tensor Evaluator::sums_of(ShardedModel& model, std::size_t first, std::size_t count) {
  const LossNormalization sum;  // every token weighs what its mask byte says
  CollatorOptions options;
  options.sources = num_sources() > 1;
  std::vector<PackedBatch> packed;
  for (std::size_t m = first; m < first + count; ++m) {
    packed.push_back(flatten(store_, plan_.ranks[world_.rank()][m], sum, options));
  }
  std::vector<DeviceBatch> batches;
  model.compute().run([&](StreamHandle) {
    for (const PackedBatch& batch : packed) batches.push_back(upload(batch, device_));
    if (options.sources) request_row_losses(batches);
  });
  const at::Tensor total = model.evaluate(batches);
  at::Tensor sums;
  model.compute().run([&](StreamHandle) {
    sums = total.reshape({1});
    if (options.sources) sums = at::cat({sums, sum_by_source(batches, num_sources())});
    sums = sums.to(at::kCPU, at::kDouble);
  });
  return sums;
}

}  // namespace packtrain

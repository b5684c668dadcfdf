#include "framework/training/evaluator.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "collators/flattening.h"
#include "framework/training/upload.h"
#include "samplers/evaluation_plan.h"

namespace packtrain {
namespace {

// Micro-batches whose losses are added up on the device in float32; beyond, on the host in double.
constexpr std::size_t kMicroBatchesAtOnce = 4;

}  // namespace

Evaluator::Evaluator(const TokenStore& store, std::int64_t max_tokens_per_micro_batch,
                     Device& device, World& world)
    : store_(store),
      device_(device),
      world_(world),
      plan_(plan_evaluation(store.lengths(), store.num_loss_tokens(), max_tokens_per_micro_batch,
                            world.size())) {}

EvaluationRecord Evaluator::evaluate(ShardedModel& model, std::int64_t step) {
  const auto num_micro_batches = static_cast<std::size_t>(plan_.num_micro_batches());
  double loss = 0;
  for (std::size_t first = 0; first < num_micro_batches; first += kMicroBatchesAtOnce) {
    loss += loss_of(model, first, std::min(kMicroBatchesAtOnce, num_micro_batches - first));
  }
  world_.control().all_reduce(&loss, 1, DataType::kFloat64, ReduceOp::kSum, nullptr);
  EvaluationRecord record;
  record.step = step;
  record.loss = loss / static_cast<double>(plan_.num_loss_tokens);
  record.perplexity = std::exp(record.loss);
  record.num_examples = plan_.num_examples;
  record.num_tokens = plan_.num_tokens;
  record.num_loss_tokens = plan_.num_loss_tokens;
  return record;
}

double Evaluator::loss_of(ShardedModel& model, std::size_t first, std::size_t count) {
  const LossNormalization sum;  // every token weighs 1
  std::vector<PackedBatch> packed;
  for (std::size_t m = first; m < first + count; ++m) {
    packed.push_back(flatten(store_, plan_.ranks[world_.rank()][m], sum));
  }
  double loss = 0;
  std::vector<DeviceBatch> batches;
  model.compute().run([&](StreamHandle) {
    for (const PackedBatch& batch : packed) batches.push_back(upload(batch, device_));
  });
  const at::Tensor total = model.evaluate(batches);
  model.compute().run([&](StreamHandle) { loss = total.item<double>(); });
  return loss;
}

}  // namespace packtrain

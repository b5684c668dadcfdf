// Loss of a validation store, exact over ranks and packing: the mean over all supervised tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <iterator>

#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "framework/metrics/metrics.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"
#include "samplers/plan.h"

namespace packtrain {

class Evaluator {
 public:
  // Everything given must outlive the evaluator.
  Evaluator(const TokenStore& store, std::int64_t max_tokens_per_micro_batch, Device& device,
            World& world);

  // Collective; every rank gets the same record.
  EvaluationRecord evaluate(ShardedModel& model, std::int64_t step);

 private:
  // Of this rank's micro-batches: the sum of their losses, and where the store has several sources
  // what sum_by_source() gives.
  at::Tensor sums_of(ShardedModel& model, std::size_t first, std::size_t count);
  std::int64_t num_sources() const { return std::ssize(store_.info().sources); }

  const TokenStore& store_;
  Device& device_;
  World& world_;
  StepPlan plan_;
};

}  // namespace packtrain

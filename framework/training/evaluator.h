// Loss of a validation store, exact over ranks and packing: the mean over all supervised tokens.
#pragma once

#include <cstdint>

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
  double loss_of(ShardedModel& model, std::size_t first, std::size_t count);

  const TokenStore& store_;
  Device& device_;
  World& world_;
  StepPlan plan_;
};

}  // namespace packtrain

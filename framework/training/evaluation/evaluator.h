// Loss of a validation store, exact over ranks and packing: the mean over all supervised tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <vector>

#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "framework/metrics/metrics.h"
#include "framework/training/evaluation/collective_evaluation.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"
#include "samplers/plan.h"

namespace packtrain {

class Evaluator {
 public:
  // Everything given must outlive the evaluator.
  Evaluator(const TokenStore& store, std::int64_t max_tokens_per_micro_batch, Device& device,
            World& world);

  // Collective; every rank gets the same record. `stop_requested`, or none, is asked between
  // micro-batches. Where memory runs out, the budget is lowered, and the evaluation begins again.
  // Throws on every rank EvaluationStopped, or EvaluationError where it cannot be done.
  EvaluationRecord evaluate(ShardedModel& model, std::int64_t step,
                            const std::function<bool()>& stop_requested = {});

  // From here on micro-batches of several examples have at most so many tokens. The same on all
  // ranks; a higher budget than the one in force changes nothing.
  void lower_budget(std::int64_t max_tokens);
  std::int64_t budget() const { return budget_; }

 private:
  // Of all micro-batches on all ranks: the sum of losses, and where the store has several sources
  // what sum_by_source() gives.
  std::vector<double> sums(ShardedModel& model, const std::function<bool()>& stop_requested);
  // Of this rank's `count` micro-batches from `first` on; undefined where it could not.
  at::Tensor sums_of(ShardedModel& model, std::size_t first, std::size_t count,
                     CollectiveEvaluation& joint);
  void replan_with_smaller_budget(const EvaluationOutOfMemory& error, std::int64_t step);
  std::int64_t num_sources() const { return std::ssize(store_.info().sources); }

  const TokenStore& store_;
  Device& device_;
  World& world_;
  std::int64_t max_tokens_;  // as configured or found
  std::int64_t budget_;      // in force
  StepPlan plan_;
};

}  // namespace packtrain

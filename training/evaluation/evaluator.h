// Loss of a validation store: the exact mean over all supervised tokens, for any ranks and packing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <vector>

#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "framework/metrics/metrics.h"
#include "parallel/communicators/process_mesh.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "samplers/plan.h"
#include "training/evaluation/collective_evaluation.h"
#include "training/evaluation/evaluated_adapter.h"
#include "training/evaluation/token_scores.h"

namespace packtrain {

struct ExampleRange {
  std::int64_t first = 0;  // examples first to end - 1 of a store
  std::int64_t end = 0;
};

class Evaluator {
 public:
  // All arguments but the mesh and the adapter must outlive the evaluator.
  Evaluator(const TokenStore& store, std::int64_t max_tokens_per_micro_batch, Device& device,
            World& world, const ProcessMesh& mesh, const EvaluatedAdapter& adapter = {});

  // Collective. Every rank gets the same record. `stop_requested`, or none, is called between
  // micro-batches. When memory runs out, the budget is lowered and the evaluation starts again.
  // Throws EvaluationStopped, or EvaluationError when it cannot be done, on every rank.
  // `scores`, if not null, receives the log-probabilities of this rank's examples.
  EvaluationRecord evaluate(ShardedModel& model, std::int64_t step,
                            const std::function<bool()>& stop_requested = {},
                            TokenScores* scores = nullptr);

  // An evaluator of the examples first to end - 1 alone, with the same settings. Throws
  // Error(kData) when none of them has a label.
  Evaluator of_examples(std::int64_t first, std::int64_t end) const;

  // Limits the tokens of micro-batches with several examples from here on. The same on all ranks. A
  // budget above the one in force changes nothing.
  void lower_budget(std::int64_t max_tokens);
  // From here on the losses are those of the model under the adapter.
  void leave_adapter_out() { without_adapter_ = true; }
  std::int64_t budget() const { return budget_; }

 private:
  // The sum of losses over all micro-batches and ranks. With several sources, the result of
  // sum_by_source().
  std::vector<double> sums(ShardedModel& model, const std::function<bool()>& stop_requested,
                           TokenScores* scores);
  // Sums of this rank's `count` micro-batches from `first` on. Undefined when it failed.
  at::Tensor sums_of(ShardedModel& model, std::size_t first, std::size_t count,
                     CollectiveEvaluation& joint, TokenScores* scores);
  void replan_with_smaller_budget(const EvaluationOutOfMemory& error, std::int64_t step);
  std::int64_t num_sources() const { return std::ssize(store_.info().sources); }

  const TokenStore& store_;
  Device& device_;
  World& world_;
  ProcessMesh mesh_;
  EvaluatedAdapter adapter_;
  bool without_adapter_ = false;
  std::int64_t max_tokens_;  // as configured or found
  std::int64_t budget_;      // in force
  ExampleRange range_;
  StepPlan plan_;
};

}  // namespace packtrain

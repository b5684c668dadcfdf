// Loss of a validation store, exact for any ranks and packing: the mean over all supervised tokens,
// or an objective of groups.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
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
#include "training/evaluation/evaluated_objective.h"
#include "training/evaluation/example_range.h"
#include "training/evaluation/token_scores.h"

namespace packtrain {

class Evaluator {
 public:
  // All arguments but the mesh and the adapter must outlive the evaluator.
  Evaluator(const TokenStore& store, std::int64_t max_tokens_per_micro_batch, Device& device,
            World& world, const ProcessMesh& mesh, const EvaluatedAdapter& adapter = {},
            EvaluatedObjective objective = {});

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
  // Call it before evaluate() where the objective has a reference.
  void set_reference(const EvaluatedReference& reference) { reference_ = reference; }
  // From here on the losses are those of the model under the adapter.
  void leave_adapter_out() { without_adapter_ = true; }
  std::int64_t budget() const { return budget_; }
  // Without an objective: whether the examples of a group share their prefix.
  bool shares_prefixes() const { return range_.units != nullptr; }

  // The loss of the last evaluate() is loss_sum() / loss_weight(), without an objective.
  double loss_sum() const { return loss_sum_; }
  double loss_weight() const { return plan_.loss_token_weight; }

 private:
  // The same for a range of its store, without a copy of its plan.
  Evaluator(const Evaluator& all, const ExampleRange& range);
  // Sums over all micro-batches and ranks: the loss, with several sources the result of
  // sum_by_source(), and of an objective its statistics.
  std::vector<double> sums(ShardedModel& model, const std::function<bool()>& stop_requested,
                           TokenScores* scores);
  // Sums of this rank's `count` micro-batches from `first` on. Undefined when it failed.
  at::Tensor sums_of(ShardedModel& model, std::size_t first, std::size_t count,
                     CollectiveEvaluation& joint, TokenScores* scores);
  // On the host. The losses are written.
  at::Tensor add_sums(const at::Tensor& total, std::span<const DeviceBatch> batches) const;
  // This rank's micro-batches from `first` on, on the device.
  std::vector<DeviceBatch> upload_batches(std::span<const PackedBatch> packed) const;
  PackedBatch collate(std::size_t micro_batch) const;
  double divergence(ShardedModel& model, CollectiveEvaluation& joint) const;
  void make_plan();
  void replan_with_smaller_budget(const EvaluationOutOfMemory& error, std::int64_t step);
  std::int64_t num_sources() const { return std::ssize(store_.info().sources); }
  std::size_t num_statistics() const;
  bool has_objective() const { return objective_.objective != nullptr; }

  const TokenStore& store_;
  Device& device_;
  World& world_;
  ProcessMesh mesh_;
  EvaluatedAdapter adapter_;
  EvaluatedObjective objective_;
  EvaluatedReference reference_;
  double divergence_ = 0;
  double loss_sum_ = 0;
  bool without_adapter_ = false;
  std::int64_t max_tokens_;  // as configured or found
  std::int64_t budget_;      // in force
  ExampleRange range_;
  StepPlan plan_;
};

}  // namespace packtrain

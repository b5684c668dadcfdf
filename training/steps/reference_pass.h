// Forward passes that an objective of groups needs before a step is trained on: log-probabilities
// of the reference model, and the divergence of KTO. Nothing here waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "models/block/batch.h"
#include "parallel/sharding/out_of_memory.h"
#include "parallel/sharding/sharded_model.h"

namespace packtrain {

// The model of the reference. Its compute stream is that of the trained model.
struct ReferenceModel {
  ShardedModel* model = nullptr;  // null: no forward is needed
  bool without_adapter = false;   // the trained model without its adapter
};

// Makes the next forward of `batches` write the loss of each supervised row and nothing else.
// Returns these losses, float32 [supervised rows of all batches]: minus the log-probabilities.
at::Tensor request_log_probs(std::span<DeviceBatch> batches, bool without_adapter);
// After that forward: keeps its log-probabilities as GroupRows::reference. The batches are then as
// before request_log_probs(). `without_adapter`: of later forwards.
void keep_as_reference(std::span<DeviceBatch> batches, bool without_adapter = false);
// For work whose results are not used, such as timing: a reference and a divergence of 0.
void set_no_reference(std::span<DeviceBatch> batches);

class ReferencePass {
 public:
  // `policy`: the trained model. `has_divergence`: mismatched answers are computed too
  // (mismatched_answers.h). All must outlive the object.
  ReferencePass(ShardedModel& policy, const ReferenceModel& reference, bool has_divergence);

  // False: run() would do nothing.
  bool is_needed() const { return reference_.model != nullptr || has_divergence_; }
  // Collective. Sets GroupRows::reference, and GroupRows::kl: the mean over `num_mismatched`
  // examples of all ranks of log p(answer) - log p_reference(answer). `mismatched`:
  // this rank's part of them. GroupRows::kl is valid until the next run(). A rank that runs out of
  // memory returns that, and has joined.
  std::optional<OutOfMemory> run(std::span<DeviceBatch> batches, std::span<DeviceBatch> mismatched,
                                 std::int64_t num_mismatched);
  // Joins the collectives of run() with these numbers of micro-batches and computes nothing.
  void join(std::size_t num_batches, std::size_t num_mismatched_batches);

 private:
  // Minus the sum of log-probabilities by the model, float32 []. Undefined after out of memory.
  at::Tensor sum_of(ShardedModel& model, bool without_adapter, std::span<DeviceBatch> batches,
                    std::optional<OutOfMemory>& failure);
  // Sums divergence_ over the ranks. Allocates nothing, so that no rank can fail to join.
  void sum_divergence();

  ShardedModel& policy_;
  ReferenceModel reference_;
  bool has_divergence_;
  at::Tensor divergence_;   // float32 [1]: this rank's part, then that of all, then their mean
  at::Tensor sum_scratch_;  // ShardRanks::sum_scratch()
};

}  // namespace packtrain

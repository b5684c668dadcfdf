// A model sharded over ranks: the main interface of `parallel/sharding`. It runs steps by their
// schedules (schedule_executor.h). It depends on blocks, not on decoders.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "framework/device/device.h"
#include "models/block/block.h"
#include "parallel/sharding/model_parameters.h"
#include "parallel/sharding/schedule.h"
#include "parallel/sharding/schedule_executor.h"
#include "parallel/sharding/shard_ranks.h"
#include "parallel/sharding/sharding_options.h"
#include "parallel/sharding/sharding_streams.h"
#include "parallel/sharding/storage.h"

namespace packtrain {

class ShardedModel {
 public:
  // Collective. An exception that unwinds past the model aborts its communicators, so that no
  // stream waits in a collective that others never join. The device must outlive the model.
  ShardedModel(std::vector<std::unique_ptr<Block>> blocks, Device& device,
               ShardingCommunicators communicators, const ShardingOptions& options);
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  // Collective: every rank calls it with the same number of micro-batches. Runs forward and
  // backward of all micro-batches of an optimizer step. Returns this rank's loss, float32 [] on the
  // device (sum of weight * loss). Afterwards, in compute-stream order, gradient() holds the
  // gradient summed over ranks and micro-batches.
  at::Tensor train(std::span<DeviceBatch> micro_batches);
  // As train(), but does not throw when this rank runs out of memory. The rest of the step then
  // runs as in join_step(), and gradient() is undefined.
  PassResult try_train(std::span<DeviceBatch> micro_batches);
  // Joins all collectives of a train() of `num_micro_batches` and computes nothing, so that the
  // other ranks can complete the step.
  void join_step(std::size_t num_micro_batches);
  // The start of train() of `num_micro_batches`. For work that replays a captured train(), as one
  // rank does (framework/device/captured_work.h).
  void begin_step(std::size_t num_micro_batches);
  // Collective. Forward only; returns the sum of the losses of all micro-batches.
  at::Tensor evaluate(std::span<DeviceBatch> micro_batches);
  // try_evaluate() and join_evaluation() are to evaluate() what try_train() and join_step() are to
  // train().
  PassResult try_evaluate(std::span<DeviceBatch> micro_batches);
  void join_evaluation(std::size_t num_micro_batches);
  // train() or evaluate() with the caller's schedule; tests run damaged ones.
  at::Tensor run(const Schedule& schedule, std::span<DeviceBatch> micro_batches);

  // Called before each forward and backward. When it throws c10::OutOfMemoryError, the step treats
  // it as running out of memory. For injected faults.
  void before_compute(std::function<void(const Action&)> hook) {
    executor_.before_compute(std::move(hook));
  }
  // Called with kForward or kBackward before each of them, on the thread that enqueues the work.
  // Work that compute() enqueued earlier does not belong to it.
  void watch_compute(std::function<void(ActionKind)> hook) {
    executor_.watch_compute(std::move(hook));
  }

  // This rank's part of the gradient of the last train(): 1-D [n], in the layout of
  // FlatState::master; gaps hold zeros. The dtype is ShardingOptions::reduce. It is float32 with
  // several micro-batches whose reductions are added up.
  const at::Tensor& gradient() const { return storage_->gradients().sum(); }
  // Memory of local gradient sums that ModelParameters::communication_bytes() does not have.
  std::int64_t local_sum_bytes() const { return storage_->gradients().local_sum_bytes(); }
  // Partial sums of squares of gradient(): float32 [n]. Call it on the compute stream, once after
  // train(), which has started the sum.
  at::Tensor squared_norm_partials() { return executor_.take_squared_norm_partials(); }

  ModelParameters& parameters() { return parameters_; }
  const ModelParameters& parameters() const { return parameters_; }
  // Any thread may use it while the model lives.
  const ShardRanks& ranks() const { return ranks_; }
  const UnitTable& units() const { return table_; }
  const SlotTable& slots() const { return slots_; }
  Stream& compute() { return *streams_.compute; }
  // Between steps.
  OperatorOptions& operator_options() { return operator_options_; }

 private:
  PassResult try_run(std::span<DeviceBatch> micro_batches, bool training);
  void join(std::size_t num_micro_batches, bool training);
  const Schedule& cached_schedule(std::size_t num_micro_batches, bool training);

  std::vector<std::unique_ptr<Block>> blocks_;
  OperatorOptions operator_options_;
  ShardRanks ranks_;
  UnitTable table_;
  SlotTable slots_;
  std::unique_ptr<ShardedStorage> storage_;
  ModelParameters parameters_;
  ScheduleExecutor executor_;
  ShardingStreams streams_;  // after what their work uses, so that it is destroyed before
  std::map<std::pair<std::size_t, bool>, Schedule> schedules_;
  int exceptions_at_start_;
};

}  // namespace packtrain

// A model sharded over ranks: the way in to `parallel/sharding`. Obeys a Schedule, action by
// action, on three streams; knows blocks, never a decoder.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/device/device.h"
#include "models/block.h"
#include "parallel/communicator.h"
#include "parallel/sharding/gather_check.h"
#include "parallel/sharding/gradient_squares.h"
#include "parallel/sharding/out_of_memory.h"
#include "parallel/sharding/replicated_state.h"
#include "parallel/sharding/schedule.h"
#include "parallel/sharding/storage.h"

namespace packtrain {

// `gather` and `reduce`: separate ones over the ranks of this rank's shard group, used from
// separate streams. `replicas`: over the ranks that own the same part in each group; none for one
// group.
struct ShardingCommunicators {
  std::unique_ptr<Communicator> gather;
  std::unique_ptr<Communicator> reduce;
  std::unique_ptr<Communicator> replicas = nullptr;
};

class ShardedModel {
 public:
  // Collective. An exception that unwinds past the model aborts its communicators, so that no
  // stream stays inside a collective that others will never join. The device must outlive the
  // model.
  ShardedModel(std::vector<std::unique_ptr<Block>> blocks, Device& device,
               ShardingCommunicators communicators, const ShardingOptions& options);
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  // Forward and backward of all micro-batches of an optimizer step. Returns this rank's loss,
  // float32 [] on the device (sum of weight * loss); afterwards, in compute-stream order,
  // gradient() holds the gradient summed over ranks and micro-batches. Collective: every rank
  // calls it with the same number of micro-batches.
  at::Tensor train(std::span<const DeviceBatch> micro_batches);
  // As train(), but memory that runs out on this rank is no exception: the rest of the step is
  // joined, as by join_step(), and what is left in gradient() is for nobody.
  struct Trained {
    at::Tensor loss;  // undefined where memory ran out
    std::optional<OutOfMemory> out_of_memory;
  };
  Trained try_train(std::span<const DeviceBatch> micro_batches);
  // Takes part in all collectives of a train() of so many micro-batches and computes nothing, so
  // that the other ranks get to its end.
  void join_step(std::size_t num_micro_batches);
  // Called before each forward and backward; where it throws c10::OutOfMemoryError, memory has run
  // out there. For faults that are injected.
  void before_compute(std::function<void(const Action&)> hook) {
    before_compute_ = std::move(hook);
  }
  // Called with kForward or kBackward before each of them, on the thread that gives the work: what
  // compute() was given before is not its.
  void watch_compute(std::function<void(ActionKind)> hook) { watch_compute_ = std::move(hook); }
  // What train() of so many micro-batches begins with: for work that repeats a captured train(),
  // which one rank's is (framework/device/captured_work.h).
  void begin_step(std::size_t num_micro_batches);
  // Forward only; the losses of all micro-batches added up. Collective.
  at::Tensor evaluate(std::span<const DeviceBatch> micro_batches);
  // As evaluate(), and what try_train() and join_step() are to train().
  Trained try_evaluate(std::span<const DeviceBatch> micro_batches);
  void join_evaluation(std::size_t num_micro_batches);
  // train() or evaluate() by a schedule of the caller's: tests run damaged ones.
  at::Tensor run(const Schedule& schedule, std::span<const DeviceBatch> micro_batches);

  // To be called after writing master weights through shards(): renews what is gathered.
  void weights_changed();
  // Collective. What the first replica has written through shards(), weights and moments, all
  // others get: one replica reads files, the links between them carry the rest. Blocks the host.
  void broadcast_first_replica();
  // What compute was given so far writes the unit's weights: the next step may gather them.
  void unit_updated(int unit);

  std::vector<ShardView> shards() const { return storage_->shard_views(); }
  FlatState& state() { return storage_->state(); }
  // This rank's part of the gradient of the last train(): 1-D [n], laid out as state().master; gaps
  // hold zeros. float32 where several micro-batches were added up, else ShardingOptions::reduce.
  const at::Tensor& gradient() const { return storage_->gradient(); }
  // The sum of squares of gradient(), in parts: float32 [n]. On the compute stream, once after
  // train(), which has begun with it.
  at::Tensor squared_norm_partials() { return squares_.take(); }
  const std::vector<OptimizerRange>& optimizer_ranges() const {
    return storage_->optimizer_ranges();
  }
  const UnitTable& units() const { return table_; }
  const SlotTable& slots() const { return slots_; }
  Stream& compute() { return *compute_; }
  // Adds up float32 [n] over all ranks, on the compute stream; between calls of train and evaluate.
  void sum_over_ranks(const at::Tensor& values);
  // int64 [ranks, n] of every rank's int64 [n], likewise; called on the compute stream.
  at::Tensor gather_over_ranks(const at::Tensor& values);
  std::vector<ReplicatedState> replicated_state() const {
    return packtrain::replicated_state(*storage_, table_, slots_);
  }
  // Throws Error(kDevice) when a communicator has met a fault that no call reported. From any
  // thread, while the model lives.
  void poll_errors() const;
  int num_replicas() const { return replicas_ == nullptr ? 1 : replicas_->size(); }
  // Of the replicas of this rank's part of the model, the one that saves it.
  bool saves_shards() const { return replicas_ == nullptr || replicas_->rank() == 0; }
  // How weights are gathered and gradients reduced, for people to read.
  std::string paths() const;
  // Bytes of communication memory, which the device's own allocator does not count.
  std::int64_t communication_bytes() const { return storage_->communication_bytes(); }

 private:
  struct Pass;  // what lives through one schedule: activations, tapes, the loss
  Trained try_run(std::span<const DeviceBatch> micro_batches, bool training);
  void join(std::size_t num_micro_batches, bool training);
  void execute(const Schedule& schedule, Pass& pass);
  void execute_action(const Action& action, Pass& pass);
  void dispatch(const Action& action, Pass& pass);
  void gather(const Action& action);
  void compare_gathers();
  void announce(const Action& action) const;
  void forward(const Action& action, Pass& pass);
  void backward(const Action& action, Pass& pass);
  void finish_backward(const Action& action, Pass& pass);
  void reduce(const Action& action);
  void reduce_scatter_gradient(const Action& action, StreamHandle stream);
  void wait_for_reductions(const Schedule& schedule, std::size_t first_late, const Pass& pass);
  void poison(int weight_slot);
  Stream& stream_of(const Action& action);
  const Schedule& cached_schedule(std::size_t num_micro_batches, bool training);
  const std::vector<Parameter>& parameters_of(const Action& action);

  std::vector<std::unique_ptr<Block>> blocks_;
  ShardingOptions options_;
  std::unique_ptr<Communicator> gather_;
  std::unique_ptr<Communicator> reduce_;
  std::unique_ptr<Communicator> replicas_;
  UnitTable table_;
  SlotTable slots_;
  std::unique_ptr<ShardedStorage> storage_;
  GradientSquares squares_;
  std::unique_ptr<GatherCheck> gather_check_;  // used on the gather stream; null without the check
  std::unique_ptr<Stream> compute_;
  std::unique_ptr<Stream> gather_stream_;
  std::unique_ptr<Stream> reduce_stream_;
  std::vector<std::unique_ptr<Event>> events_;
  std::map<std::pair<std::size_t, bool>, Schedule> schedules_;
  std::function<void(const Action&)> before_compute_;  // or none
  std::function<void(ActionKind)> watch_compute_;      // or none
  int exceptions_at_start_;
};

}  // namespace packtrain

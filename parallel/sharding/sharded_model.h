// A model sharded over ranks: the main interface of `parallel/sharding`. It executes a Schedule,
// action by action, on three streams. It depends on blocks, not on decoders.
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
#include "models/block/block.h"
#include "parallel/communicators/communicator.h"
#include "parallel/communicators/process_mesh.h"
#include "parallel/sharding/gather_check.h"
#include "parallel/sharding/gradient_squares.h"
#include "parallel/sharding/out_of_memory.h"
#include "parallel/sharding/replicated_state.h"
#include "parallel/sharding/schedule.h"
#include "parallel/sharding/storage.h"

namespace packtrain {

// `gather` and `reduce`: two communicators along the mesh's shard axis, used from separate streams.
// `replicas`: along its replicate axis, over the ranks that own the same part in each group; null
// for one group.
struct ShardingCommunicators {
  std::unique_ptr<Communicator> gather;
  std::unique_ptr<Communicator> reduce;
  std::unique_ptr<Communicator> replicas = nullptr;
};

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
  struct Trained {
    at::Tensor loss;  // undefined when memory ran out
    std::optional<OutOfMemory> out_of_memory;
  };
  Trained try_train(std::span<DeviceBatch> micro_batches);
  // Joins all collectives of a train() of `num_micro_batches` and computes nothing, so that the
  // other ranks can complete the step.
  void join_step(std::size_t num_micro_batches);
  // Called before each forward and backward. When it throws c10::OutOfMemoryError, the step treats
  // it as running out of memory. For injected faults.
  void before_compute(std::function<void(const Action&)> hook) {
    before_compute_ = std::move(hook);
  }
  // Called with kForward or kBackward before each of them, on the thread that enqueues the work.
  // Work that compute() enqueued earlier does not belong to it.
  void watch_compute(std::function<void(ActionKind)> hook) { watch_compute_ = std::move(hook); }
  // The start of train() of `num_micro_batches`. For work that replays a captured train(), as one
  // rank does (framework/device/captured_work.h).
  void begin_step(std::size_t num_micro_batches);
  // Collective. Forward only; returns the sum of the losses of all micro-batches.
  at::Tensor evaluate(std::span<DeviceBatch> micro_batches);
  // try_evaluate() and join_evaluation() are to evaluate() what try_train() and join_step() are to
  // train().
  Trained try_evaluate(std::span<DeviceBatch> micro_batches);
  void join_evaluation(std::size_t num_micro_batches);
  // train() or evaluate() with the caller's schedule; tests run damaged ones.
  at::Tensor run(const Schedule& schedule, std::span<DeviceBatch> micro_batches);

  // Call it after writing master weights through shards(): it refreshes the weights that are
  // gathered.
  void weights_changed();
  // Collective. Sends what the first replica has written through shards(), weights and optimizer
  // state, to all others. So only one replica reads files. Blocks the host.
  void broadcast_first_replica();
  // Work enqueued on compute so far writes the unit's weights. The next step may gather them after
  // it.
  void unit_updated(int unit);

  std::vector<ShardView> shards() const { return storage_->shard_views(); }
  FlatState& state() { return storage_->state(); }
  // This rank's part of the gradient of the last train(): 1-D [n], in the layout of state().master;
  // gaps hold zeros. The dtype is float32 with several micro-batches, else ShardingOptions::reduce.
  const at::Tensor& gradient() const { return storage_->gradient(); }
  // Partial sums of squares of gradient(): float32 [n]. Call it on the compute stream, once after
  // train(), which has started the sum.
  at::Tensor squared_norm_partials() { return squares_.take(); }
  const std::vector<OptimizerRange>& optimizer_ranges() const {
    return storage_->optimizer_ranges();
  }
  const UnitTable& units() const { return table_; }
  const SlotTable& slots() const { return slots_; }
  Stream& compute() { return *compute_; }
  // Sums float32 [n] over all ranks, on the compute stream, between calls of train and evaluate.
  void sum_over_ranks(const at::Tensor& values);
  // Gathers int64 [n] of every rank to int64 [ranks, n], on the compute stream, between calls of
  // train and evaluate.
  at::Tensor gather_over_ranks(const at::Tensor& values);
  std::vector<ReplicatedState> replicated_state() const {
    return packtrain::replicated_state(*storage_, table_, slots_);
  }
  // Throws Error(kDevice) when a communicator has met a fault that no call reported. Any thread may
  // call it while the model lives.
  void poll_errors() const;
  ProcessMesh mesh() const {
    return {.replicate = axis_of(replicas_.get()), .shard = axis_of(gather_.get())};
  }
  // True for the one replica of this rank's part of the model that saves it.
  bool saves_shards() const { return mesh().replicate.rank == 0; }
  // The paths of gathers and reductions, as text.
  std::string paths() const;
  // Bytes of communication memory, which the device's allocator does not count.
  std::int64_t communication_bytes() const { return storage_->communication_bytes(); }

 private:
  struct Pass;  // state of one schedule's run: activations, tapes, the loss
  Trained try_run(std::span<DeviceBatch> micro_batches, bool training);
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

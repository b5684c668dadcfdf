// Executes a Schedule, action by action, on three streams. It knows blocks and slots, but not what
// a step is for.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "models/block/block.h"
#include "parallel/sharding/gather_check.h"
#include "parallel/sharding/gradient_squares.h"
#include "parallel/sharding/input_offload.h"
#include "parallel/sharding/out_of_memory.h"
#include "parallel/sharding/schedule.h"
#include "parallel/sharding/shard_ranks.h"
#include "parallel/sharding/sharding_streams.h"
#include "parallel/sharding/storage.h"

namespace packtrain {

// The parts of a sharded model that an executor uses. They outlive it.
struct ExecutorParts {
  const std::vector<std::unique_ptr<Block>>& blocks;
  const ShardRanks& ranks;
  const UnitTable& table;
  const SlotTable& slots;
  ShardedStorage& storage;
  ShardingStreams& streams;
  const OperatorOptions& operators;
  Device& device;
};

struct PassResult {
  at::Tensor loss;  // undefined when memory ran out
  std::optional<OutOfMemory> out_of_memory;
};

class ScheduleExecutor {
 public:
  ScheduleExecutor(const ExecutorParts& parts, const ShardingOptions& options);

  // The loss is the sum over the micro-batches, float32 []. `survives`: does not throw when this
  // rank runs out of memory; the rest of the schedule then runs as in join().
  PassResult run(const Schedule& schedule, std::span<DeviceBatch> micro_batches, bool survives);
  // Joins all collectives of the schedule and computes nothing.
  void join(const Schedule& schedule);

  // Partial sums of squares of the gradient of the latest run(): float32 [n]. Once after it, on the
  // compute stream.
  at::Tensor take_squared_norm_partials() { return squares_.take(); }

  // ShardedModel says what these are for.
  void before_compute(std::function<void(const Action&)> hook) {
    before_compute_ = std::move(hook);
  }
  void watch_compute(std::function<void(ActionKind)> hook) { watch_compute_ = std::move(hook); }

 private:
  struct Pass;  // state of one schedule's run: activations, tapes, the loss
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
  void clear_gradient(const Action& action);
  void poison(int weight_slot);
  Stream& stream_of(const Action& action) const;
  Event& event(int number) const;
  const std::vector<Parameter>& parameters_of(const Action& action);

  ExecutorParts parts_;
  at::ScalarType reduce_type_;
  bool poisons_slots_;
  GradientSquares squares_;
  std::unique_ptr<InputOffload> offload_;      // null without it
  std::unique_ptr<GatherCheck> gather_check_;  // used on the gather stream; null without the check
  std::function<void(const Action&)> before_compute_;  // or none
  std::function<void(ActionKind)> watch_compute_;      // or none
};

}  // namespace packtrain

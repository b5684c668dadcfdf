#include "parallel/sharding/sharded_model.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <string>
#include <utility>

#include "framework/core/error.h"
#include "framework/device/trace_range.h"
#include "models/block/batch.h"
#include "models/block/split_backward.h"
#include "parallel/communicators/collective_log.h"
#include "parallel/sharding/self_test.h"

namespace packtrain {
namespace {

SlotOptions slot_options(const ShardingOptions& options, const ProcessMesh& mesh) {
  return {options.zero_stage, options.gather_slots, options.resident_embeddings, mesh.shard.size,
          mesh.replicate.size};
}

}  // namespace

struct ShardedModel::Pass {
  std::span<DeviceBatch> batches;
  at::Tensor x = {};     // input of the next block: activation, or its gradient in backward
  at::Tensor loss = {};  // sum over micro-batches so far
  std::vector<std::unique_ptr<Tape>> tapes = {};  // [blocks]
  bool survives = false;                          // running out of memory is no exception
  bool joins = false;                             // joins collectives without computing
  std::optional<OutOfMemory> out_of_memory = {};

  BlockContext context(const Action& action, BlockMode mode) const {
    return {batches[action.micro_batch], mode};
  }
  void give_up() {
    joins = true;
    x = loss = at::Tensor();
    tapes.clear();
  }
};

ShardedModel::ShardedModel(std::vector<std::unique_ptr<Block>> blocks, Device& device,
                           ShardingCommunicators communicators, const ShardingOptions& options)
    : blocks_(std::move(blocks)),
      options_(options),
      gather_(std::move(communicators.gather)),
      reduce_(std::move(communicators.reduce)),
      replicas_(std::move(communicators.replicas)),
      table_(make_unit_table(blocks_, mesh().shard.size)),
      slots_(make_slot_table(table_, slot_options(options, mesh()))),
      storage_(
          std::make_unique<ShardedStorage>(table_, slots_, device, *gather_, *reduce_, options)),
      squares_(*storage_),
      compute_(device.make_stream(StreamKind::kCompute)),
      gather_stream_(device.make_stream(StreamKind::kGather)),
      reduce_stream_(device.make_stream(StreamKind::kReduce)),
      exceptions_at_start_(std::uncaught_exceptions()) {
  for (int e = 0; e < slots_.num_events(); ++e) events_.push_back(device.make_event());
  begin_step(/*num_micro_batches=*/1);
  if (options_.check_gathers) gather_check_ = std::make_unique<GatherCheck>(mesh().shard.size);
  if (!options_.self_test) return;
  test_collectives({*storage_, table_, slots_, *gather_, *gather_stream_, *reduce_, *reduce_stream_,
                    replicas_.get()});
}

ShardedModel::~ShardedModel() {
  if (std::uncaught_exceptions() == exceptions_at_start_) return;
  gather_->abort();
  reduce_->abort();
  if (replicas_ != nullptr) replicas_->abort();
}

at::Tensor ShardedModel::train(std::span<DeviceBatch> micro_batches) {
  return run(cached_schedule(micro_batches.size(), true), micro_batches);
}

at::Tensor ShardedModel::evaluate(std::span<DeviceBatch> micro_batches) {
  return run(cached_schedule(micro_batches.size(), false), micro_batches);
}

at::Tensor ShardedModel::run(const Schedule& schedule, std::span<DeviceBatch> micro_batches) {
  const bool trains = std::ranges::any_of(
      schedule, [](const Action& action) { return action.kind == ActionKind::kBackward; });
  if (trains) begin_step(micro_batches.size());
  Pass pass{.batches = micro_batches};
  execute(schedule, pass);
  return pass.loss;
}

ShardedModel::Trained ShardedModel::try_run(std::span<DeviceBatch> micro_batches, bool training) {
  if (training) begin_step(micro_batches.size());
  Pass pass{.batches = micro_batches, .survives = true};
  execute(cached_schedule(micro_batches.size(), training), pass);
  return {std::move(pass.loss), std::move(pass.out_of_memory)};
}

void ShardedModel::join(std::size_t num_micro_batches, bool training) {
  if (training) begin_step(num_micro_batches);
  Pass pass{.batches = {}, .joins = true};
  execute(cached_schedule(num_micro_batches, training), pass);
}

void ShardedModel::execute(const Schedule& schedule, Pass& pass) {
  pass.tapes.resize(blocks_.size());
  squares_.discard();
  const std::size_t first_late = first_late_reduction(schedule);
  for (std::size_t a = 0; a < schedule.size(); ++a) {
    if (a == first_late) reduce_stream_->record(*events_[slots_.reduced_except_last()]);
    execute_action(schedule[a], pass);
  }
  if (slots_.reduces()) wait_for_reductions(schedule, first_late, pass);
  if (gather_check_ != nullptr) compare_gathers();
}

void ShardedModel::wait_for_reductions(const Schedule& schedule, std::size_t first_late,
                                       const Pass& pass) {
  reduce_stream_->record(*events_[slots_.reduced()]);
  if (first_late < schedule.size() && !pass.joins) {
    compute_->wait(*events_[slots_.reduced_except_last()]);
    compute_->run([&](StreamHandle) {
      const at::NoGradGuard no_grad;
      squares_.add_early(schedule, first_late);
    });
  }
  compute_->wait(*events_[slots_.reduced()]);
}

void ShardedModel::execute_action(const Action& action, Pass& pass) {
  Stream& stream = stream_of(action);
  for (const int event : action.waits) stream.wait(*events_[event]);
  const std::string& unit = table_.units[action.unit].name;
  const std::string& name = action.block >= 0 ? blocks_[action.block]->name() : unit;
  const bool computes = action.stream() == ActionStream::kCompute;
  try {
    const TraceRange range(name_of(action.kind) + (" " + name));
    if (!computes || !pass.joins) dispatch(action, pass);
  } catch (const c10::OutOfMemoryError& error) {
    OutOfMemory out(std::string("the ") + name_of(action.kind) + " of " + name,
                    computes ? action.micro_batch : -1,
                    computes ? pass.batches[action.micro_batch].num_rows() : 0, error.what());
    if (!computes || !pass.survives) throw out;
    pass.out_of_memory = std::move(out);
    pass.give_up();
  }
  if (action.releases && options_.poison_slots) poison(action.weight_slot);
  for (const int event : action.records) stream.record(*events_[event]);
}

void ShardedModel::dispatch(const Action& action, Pass& pass) {
  switch (action.kind) {
    case ActionKind::kGather:
      return gather(action);
    case ActionKind::kForward:
      announce(action);
      return forward(action, pass);
    case ActionKind::kBackward:
      announce(action);
      return backward(action, pass);
    case ActionKind::kWeightGrad:
      return finish_backward(action, pass);
    case ActionKind::kReduce:
      return reduce(action);
  }
}

void ShardedModel::announce(const Action& action) const {
  if (watch_compute_) watch_compute_(action.kind);
  if (before_compute_) before_compute_(action);
}

Stream& ShardedModel::stream_of(const Action& action) {
  switch (action.stream()) {
    case ActionStream::kGather:
      return *gather_stream_;
    case ActionStream::kReduce:
      return *reduce_stream_;
    case ActionStream::kCompute:
      break;
  }
  return *compute_;
}

const std::vector<Parameter>& ShardedModel::parameters_of(const Action& action) {
  return storage_->parameters(action.block, action.grad_slot, action.accumulate);
}

void ShardedModel::gather(const Action& action) {
  for (const bool trainable : {true, false}) {
    const at::Tensor owned = storage_->owned_weights(action.unit, trainable);
    const at::Tensor whole = storage_->gathered_weights(action.unit, trainable);
    if (owned.numel() == 0) continue;
    gather_stream_->run([this, owned, whole, unit = action.unit](StreamHandle handle) {
      const CollectiveLabel label(table_.units[unit].name);
      gather_->all_gather(owned.const_data_ptr(), whole.data_ptr(), owned.numel(),
                          communicator_type(options_.compute), handle);
      if (gather_check_ != nullptr) gather_check_->add(table_.units[unit].name, whole);
    });
  }
}

void ShardedModel::compare_gathers() {
  gather_stream_->synchronize();
  reduce_stream_->run([this](StreamHandle handle) { gather_check_->compare(*reduce_, handle); });
  reduce_stream_->synchronize();
}

void ShardedModel::forward(const Action& action, Pass& pass) {
  compute_->run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    if (action.grad_slot >= 0 && storage_->clears_gradient(action.grad_slot)) {
      storage_->gradient(action.unit, action.grad_slot).zero_();
    }
    const BlockMode mode = action.training ? BlockMode::kTrain : BlockMode::kEvaluate;
    BlockOutput output =
        blocks_[action.block]->forward(parameters_of(action), pass.context(action, mode), pass.x);
    pass.tapes[action.block] = std::move(output.tape);
    pass.x = std::move(output.value);
    if (action.block + 1 < static_cast<int>(blocks_.size())) return;
    pass.loss = pass.loss.defined() ? pass.loss.add(pass.x) : pass.x;
    pass.x = at::Tensor();  // the loss's own gradient is 1
  });
}

void ShardedModel::backward(const Action& action, Pass& pass) {
  compute_->run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    const bool filled = action.accumulate || action.block + 1 == static_cast<int>(blocks_.size());
    if (action.grad_slot >= 0 && !filled && storage_->clears_gradient(action.grad_slot)) {
      storage_->gradient(action.unit, action.grad_slot).zero_();
    }
    std::unique_ptr<Tape>& tape = pass.tapes[action.block];
    const SplitBackward* two_parts =
        action.defers_weight_grads ? blocks_[action.block]->split_backward() : nullptr;
    pass.x = two_parts != nullptr
                 ? two_parts->backward_input(parameters_of(action), *tape, pass.x)
                 : blocks_[action.block]->backward(parameters_of(action),
                                                   pass.context(action, BlockMode::kTrain),
                                                   std::move(tape), pass.x);
    if (action.block == table_.first_trainable_block) pass.x = at::Tensor();
  });
}

void ShardedModel::finish_backward(const Action& action, Pass& pass) {
  const SplitBackward* two_parts = blocks_[action.block]->split_backward();
  if (two_parts == nullptr) return;  // no weight gradients were deferred
  compute_->run([&](StreamHandle) {
    two_parts->backward_weight(*pass.tapes[action.block]);
    pass.tapes[action.block].reset();
  });
}

void ShardedModel::reduce(const Action& action) {
  reduce_stream_->run([this, action](StreamHandle handle) {
    const at::NoGradGuard no_grad;
    const CollectiveLabel label(table_.units[action.unit].name);
    if (!slots_.grads_in_place) reduce_scatter_gradient(action, handle);
    if (!action.completes || replicas_ == nullptr) return;
    const at::Tensor shard = storage_->gradient_shard(action.unit);
    replicas_->all_reduce(shard.data_ptr(), shard.numel(), communicator_type(shard.scalar_type()),
                          ReduceOp::kSum, handle);
  });
}

void ShardedModel::reduce_scatter_gradient(const Action& action, StreamHandle stream) {
  const at::Tensor whole = storage_->gradient(action.unit, action.grad_slot);
  const at::Tensor shard = storage_->gradient_shard(action.unit);
  const bool straight = !action.accumulate && shard.scalar_type() == options_.reduce;
  const at::Tensor sum = straight ? shard : storage_->reduce_output(action.unit);
  reduce_->reduce_scatter(whole.data_ptr(), sum.data_ptr(), sum.numel(),
                          communicator_type(options_.reduce), stream);
  if (straight) return;
  if (action.accumulate) {
    shard.add_(sum);
  } else {
    shard.copy_(sum);
  }
}

void ShardedModel::poison(int weight_slot) {
  compute_->run([&](StreamHandle) {
    storage_->weight_slot(weight_slot).fill_(std::numeric_limits<double>::quiet_NaN());
  });
}

}  // namespace packtrain

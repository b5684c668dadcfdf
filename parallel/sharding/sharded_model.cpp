#include "parallel/sharding/sharded_model.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <string>

#include "framework/device/trace_range.h"
#include "framework/support/error.h"
#include "models/batch.h"
#include "parallel/sharding/self_test.h"

namespace packtrain {
namespace {

// What was being done when the device's memory ran out, and what to change.
Error out_of_memory(const std::string& phase, std::int64_t num_rows, const std::string& detail) {
  return {ErrorCategory::kDevice,
          "out of GPU memory in " + phase + ", a micro-batch of " + std::to_string(num_rows) +
              " rows: " + detail.substr(0, detail.find('\n')),
          "Lower batch.max_tokens_per_micro_batch, set memory.recompute: selective or full, or use "
          "more ranks; `packtrain plan` prints what each part needs."};
}

const char* kind_name(ActionKind kind) {
  switch (kind) {
    case ActionKind::kGather:
      return "gather";
    case ActionKind::kForward:
      return "forward";
    case ActionKind::kBackward:
      return "backward";
    case ActionKind::kReduce:
      break;
  }
  return "reduce";
}

SlotOptions slot_options(const ShardingOptions& options, int num_ranks, int num_replicas) {
  return {options.zero_stage, options.gather_slots, options.resident_embeddings, num_ranks,
          num_replicas};
}

}  // namespace

struct ShardedModel::Pass {
  std::span<const DeviceBatch> batches;
  at::Tensor x;     // what the next block is given: activation, or its gradient on the way back
  at::Tensor loss;  // sum over micro-batches so far
  std::vector<std::unique_ptr<Tape>> tapes;  // [blocks]
};

ShardedModel::ShardedModel(std::vector<std::unique_ptr<Block>> blocks, Device& device,
                           ShardingCommunicators communicators, const ShardingOptions& options)
    : blocks_(std::move(blocks)),
      options_(options),
      gather_(std::move(communicators.gather)),
      reduce_(std::move(communicators.reduce)),
      replicas_(std::move(communicators.replicas)),
      table_(make_unit_table(blocks_, gather_->size())),
      slots_(make_slot_table(table_, slot_options(options, gather_->size(), num_replicas()))),
      storage_(
          std::make_unique<ShardedStorage>(table_, slots_, device, *gather_, *reduce_, options)),
      compute_(device.make_stream(StreamKind::kCompute)),
      gather_stream_(device.make_stream(StreamKind::kGather)),
      reduce_stream_(device.make_stream(StreamKind::kReduce)),
      exceptions_at_start_(std::uncaught_exceptions()) {
  for (int e = 0; e < slots_.num_events(); ++e) events_.push_back(device.make_event());
  begin_step(/*num_micro_batches=*/1);
  if (options_.check_gathers) gather_check_ = std::make_unique<GatherCheck>(gather_->size());
  if (!options_.self_test) return;
  test_collectives(
      {*storage_, table_, slots_, *gather_, *gather_stream_, *reduce_, *reduce_stream_});
}

ShardedModel::~ShardedModel() {
  if (std::uncaught_exceptions() == exceptions_at_start_) return;
  gather_->abort();
  reduce_->abort();
  if (replicas_ != nullptr) replicas_->abort();
}

void ShardedModel::begin_step(std::size_t num_micro_batches) {
  compute_->run([&](StreamHandle) { storage_->begin_step(num_micro_batches > 1); });
}

at::Tensor ShardedModel::train(std::span<const DeviceBatch> micro_batches) {
  return run(cached_schedule(micro_batches.size(), true), micro_batches);
}

at::Tensor ShardedModel::evaluate(std::span<const DeviceBatch> micro_batches) {
  return run(cached_schedule(micro_batches.size(), false), micro_batches);
}

const Schedule& ShardedModel::cached_schedule(std::size_t num_micro_batches, bool training) {
  const auto [it, inserted] = schedules_.try_emplace({num_micro_batches, training});
  if (inserted) {
    const ScheduleOptions options{static_cast<int>(num_micro_batches), training};
    it->second = make_schedule(table_, slots_, options);
  }
  return it->second;
}

at::Tensor ShardedModel::run(const Schedule& schedule, std::span<const DeviceBatch> micro_batches) {
  Pass pass;
  pass.batches = micro_batches;
  pass.tapes.resize(blocks_.size());
  const bool trains = std::ranges::any_of(
      schedule, [](const Action& action) { return action.kind == ActionKind::kBackward; });
  if (trains) begin_step(micro_batches.size());
  for (const Action& action : schedule) perform(action, pass);
  if (slots_.reduces()) {
    reduce_stream_->record(*events_[slots_.reduced()]);
    compute_->wait(*events_[slots_.reduced()]);
  }
  if (gather_check_ != nullptr) compare_gathers();
  return pass.loss;
}

void ShardedModel::perform(const Action& action, Pass& pass) {
  Stream& stream = stream_of(action);
  for (const int event : action.waits) stream.wait(*events_[event]);
  const std::string& unit = table_.units[action.unit].name;
  const std::string& name = action.block >= 0 ? blocks_[action.block]->name() : unit;
  try {
    const TraceRange range(kind_name(action.kind) + (" " + name));
    dispatch(action, pass);
  } catch (const c10::OutOfMemoryError& error) {
    throw out_of_memory(std::string("the ") + kind_name(action.kind) + " of " + name,
                        pass.batches[action.micro_batch].num_rows(), error.what());
  }
  if (action.releases && options_.poison_slots) poison(action.weight_slot);
  for (const int event : action.records) stream.record(*events_[event]);
}

void ShardedModel::dispatch(const Action& action, Pass& pass) {
  switch (action.kind) {
    case ActionKind::kGather:
      return gather(action);
    case ActionKind::kForward:
      return forward(action, pass);
    case ActionKind::kBackward:
      return backward(action, pass);
    case ActionKind::kReduce:
      return reduce(action);
  }
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
    BlockOutput output = blocks_[action.block]->forward(
        parameters_of(action), pass.batches[action.micro_batch], pass.x, action.training);
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
    pass.x =
        blocks_[action.block]->backward(parameters_of(action), pass.batches[action.micro_batch],
                                        std::move(pass.tapes[action.block]), pass.x);
    if (action.block == table_.first_trainable_block) pass.x = at::Tensor();
  });
}

void ShardedModel::reduce(const Action& action) {
  reduce_stream_->run([this, action](StreamHandle handle) {
    const at::NoGradGuard no_grad;
    if (!slots_.gradients_in_place) scatter_gradient(action, handle);
    if (!action.completes || replicas_ == nullptr) return;
    const at::Tensor shard = storage_->gradient_shard(action.unit);
    replicas_->all_reduce(shard.data_ptr(), shard.numel(), communicator_type(shard.scalar_type()),
                          ReduceOp::kSum, handle);
  });
}

void ShardedModel::scatter_gradient(const Action& action, StreamHandle stream) {
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

std::string ShardedModel::paths() const {
  return "gathers by " + gather_->path() + ", reductions by " + reduce_->path();
}

void ShardedModel::weights_changed() {
  compute_->run([this](StreamHandle) {
    const at::NoGradGuard no_grad;
    FlatState& flat = state();
    if (!flat.weight.is_same(flat.master)) flat.weight.copy_(flat.master);
  });
  if (!slots_.gathers()) return;
  for (int unit = 0; unit < slots_.num_units; ++unit) unit_updated(unit);
}

void ShardedModel::unit_updated(int unit) {
  compute_->record(*events_[slots_.updated(unit)]);
}

void ShardedModel::sum_over_ranks(const at::Tensor& values) {
  compute_->run([&](StreamHandle handle) {
    for (Communicator* communicator : {reduce_.get(), replicas_.get()}) {
      if (communicator == nullptr) continue;
      communicator->all_reduce(values.data_ptr(), values.numel(), DataType::kFloat32,
                               ReduceOp::kSum, handle);
    }
  });
}

}  // namespace packtrain

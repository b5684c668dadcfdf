#include "parallel/sharding/schedule_executor.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <optional>
#include <string>
#include <utility>

#include "framework/device/trace_range.h"
#include "models/block/batch.h"
#include "models/block/split_backward.h"
#include "parallel/communicators/collective_log.h"
#include "parallel/sharding/arena.h"

namespace packtrain {
namespace {

constexpr int kNanByte = 0xFF;  // a float of such bytes is NaN

}  // namespace

struct ScheduleExecutor::Pass {
  std::span<DeviceBatch> batches;
  const OperatorOptions& operators;
  at::Tensor x = {};     // input of the next block: activation, or its gradient in backward
  at::Tensor loss = {};  // sum over micro-batches so far
  std::vector<std::unique_ptr<Tape>> tapes = {};  // [blocks]
  bool survives = false;                          // running out of memory is no exception
  bool joins = false;                             // joins collectives without computing
  std::optional<OutOfMemory> out_of_memory = {};

  BlockContext context(const Action& action, BlockMode mode) const {
    return {batches[action.micro_batch], mode, operators};
  }
  void give_up() {
    joins = true;
    x = loss = at::Tensor();
    tapes.clear();
  }
};

ScheduleExecutor::ScheduleExecutor(const ExecutorParts& parts, const ShardingOptions& options)
    : parts_(parts),
      reduce_type_(options.reduce),
      poisons_slots_(options.poison_slots),
      squares_(parts.storage.gradients()) {
  if (options.offload_inputs) {
    offload_ = std::make_unique<InputOffload>(parts.device, parts.streams, parts.blocks.size());
  }
  if (options.check_gathers) {
    gather_check_ = std::make_unique<GatherCheck>(parts.ranks.mesh().shard.size);
  }
}

PassResult ScheduleExecutor::run(const Schedule& schedule, std::span<DeviceBatch> micro_batches,
                                 bool survives) {
  Pass pass{.batches = micro_batches, .operators = parts_.operators, .survives = survives};
  execute(schedule, pass);
  return {std::move(pass.loss), std::move(pass.out_of_memory)};
}

void ScheduleExecutor::join(const Schedule& schedule) {
  Pass pass{.batches = {}, .operators = parts_.operators, .joins = true};
  execute(schedule, pass);
}

void ScheduleExecutor::execute(const Schedule& schedule, Pass& pass) {
  pass.tapes.resize(parts_.blocks.size());
  squares_.discard();
  const std::size_t first_late = first_late_reduction(schedule);
  for (std::size_t a = 0; a < schedule.size(); ++a) {
    if (a == first_late) parts_.streams.reduce->record(event(parts_.slots.reduced_except_last()));
    execute_action(schedule[a], pass);
  }
  if (parts_.slots.reduces()) wait_for_reductions(schedule, first_late, pass);
  if (gather_check_ != nullptr) compare_gathers();
}

void ScheduleExecutor::wait_for_reductions(const Schedule& schedule, std::size_t first_late,
                                           const Pass& pass) {
  parts_.streams.reduce->record(event(parts_.slots.reduced()));
  if (first_late < schedule.size() && !pass.joins) {
    parts_.streams.compute->wait(event(parts_.slots.reduced_except_last()));
    parts_.streams.compute->run([&](StreamHandle) {
      const at::NoGradGuard no_grad;
      squares_.add_early(schedule, first_late);
    });
  }
  parts_.streams.compute->wait(event(parts_.slots.reduced()));
}

void ScheduleExecutor::execute_action(const Action& action, Pass& pass) {
  Stream& stream = stream_of(action);
  for (const int number : action.waits) stream.wait(event(number));
  const std::string& unit = parts_.table.units[action.unit].name;
  const std::string& name = action.block >= 0 ? parts_.blocks[action.block]->name() : unit;
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
    if (offload_ != nullptr) offload_->clear();
  }
  if (action.releases && poisons_slots_) poison(action.weight_slot);
  for (const int number : action.records) stream.record(event(number));
}

void ScheduleExecutor::dispatch(const Action& action, Pass& pass) {
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

void ScheduleExecutor::announce(const Action& action) const {
  if (watch_compute_) watch_compute_(action.kind);
  if (before_compute_) before_compute_(action);
}

Stream& ScheduleExecutor::stream_of(const Action& action) const {
  switch (action.stream()) {
    case ActionStream::kGather:
      return *parts_.streams.gather;
    case ActionStream::kReduce:
      return *parts_.streams.reduce;
    case ActionStream::kCompute:
      break;
  }
  return *parts_.streams.compute;
}

Event& ScheduleExecutor::event(int number) const {
  return *parts_.streams.events[number];
}

const std::vector<Parameter>& ScheduleExecutor::parameters_of(const Action& action) {
  GradientWrite write = GradientWrite::kWrite;
  if (action.accumulate) {
    write = action.adds_micro_batches ? GradientWrite::kAdd : GradientWrite::kAddShared;
  }
  return parts_.storage.parameters(action.block, action.grad_slot, write);
}

void ScheduleExecutor::gather(const Action& action) {
  for (std::size_t part = 0; part < parts_.table.units[action.unit].parts.size(); ++part) {
    parts_.streams.gather->run([this, part, u = action.unit](StreamHandle handle) {
      const Unit& unit = parts_.table.units[u];
      const CollectiveLabel label(unit.name);
      const at::NoGradGuard no_grad;
      parts_.storage.encode_sent(u, part);
      const at::Tensor sent = parts_.storage.sent_weights(u, part);
      const at::Tensor& whole = parts_.storage.gathered_weights(u, part);
      parts_.ranks.gather().all_gather(sent.const_data_ptr(), whole.data_ptr(), sent.numel(),
                                       unit.parts[part].layout.gathered_type, handle);
      if (gather_check_ != nullptr) gather_check_->add(unit.name, whole);
    });
  }
}

void ScheduleExecutor::compare_gathers() {
  parts_.streams.gather->synchronize();
  parts_.streams.reduce->run(
      [this](StreamHandle handle) { gather_check_->compare(parts_.ranks.reduce(), handle); });
  parts_.streams.reduce->synchronize();
}

void ScheduleExecutor::forward(const Action& action, Pass& pass) {
  parts_.streams.compute->run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    clear_gradient(action);
    const BlockMode mode = action.training ? BlockMode::kTrain : BlockMode::kEvaluate;
    BlockOutput output = parts_.blocks[action.block]->forward(parameters_of(action),
                                                              pass.context(action, mode), pass.x);
    pass.tapes[action.block] = std::move(output.tape);
    pass.x = std::move(output.value);
    if (action.block + 1 < static_cast<int>(parts_.blocks.size())) return;
    pass.loss = pass.loss.defined() ? pass.loss.add(pass.x) : pass.x;
    pass.x = at::Tensor();  // the loss's own gradient is 1
  });
  // Backward begins with the last two blocks, so that their inputs are needed soon.
  const bool is_late = action.block + 2 >= static_cast<int>(parts_.blocks.size());
  const std::unique_ptr<Tape>& tape = pass.tapes[action.block];
  if (offload_ != nullptr && tape != nullptr && !is_late) offload_->save(action.block, *tape);
}

void ScheduleExecutor::backward(const Action& action, Pass& pass) {
  if (offload_ != nullptr) offload_->restore(action.block, *pass.tapes[action.block]);
  parts_.streams.compute->run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    const bool filled =
        action.accumulate || action.block + 1 == static_cast<int>(parts_.blocks.size());
    if (!filled) clear_gradient(action);
    std::unique_ptr<Tape>& tape = pass.tapes[action.block];
    // Deferred products hold activations, which an offload would have freed.
    const bool defers = action.defers_weight_grads && offload_ == nullptr;
    const SplitBackward* two_parts =
        defers ? parts_.blocks[action.block]->split_backward() : nullptr;
    pass.x = two_parts != nullptr
                 ? two_parts->backward_input(parameters_of(action), *tape, pass.x)
                 : parts_.blocks[action.block]->backward(parameters_of(action),
                                                         pass.context(action, BlockMode::kTrain),
                                                         std::move(tape), pass.x);
    if (action.block == parts_.table.first_trainable_block) pass.x = at::Tensor();
  });
}

void ScheduleExecutor::finish_backward(const Action& action, Pass& pass) {
  const SplitBackward* two_parts = parts_.blocks[action.block]->split_backward();
  // Nothing was deferred without two parts, or when the tape has gone.
  if (two_parts == nullptr || pass.tapes[action.block] == nullptr) return;
  parts_.streams.compute->run([&](StreamHandle) {
    two_parts->backward_weight(*pass.tapes[action.block]);
    pass.tapes[action.block].reset();
  });
}

void ScheduleExecutor::reduce(const Action& action) {
  parts_.streams.reduce->run([this, action](StreamHandle handle) {
    const at::NoGradGuard no_grad;
    const CollectiveLabel label(parts_.table.units[action.unit].name);
    if (!parts_.slots.grads_in_place) reduce_scatter_gradient(action, handle);
    if (!action.completes || parts_.ranks.replicas() == nullptr) return;
    const at::Tensor shard = parts_.storage.gradients().shard(action.unit);
    parts_.ranks.replicas()->all_reduce(shard.data_ptr(), shard.numel(),
                                        communicator_type(shard.scalar_type()), ReduceOp::kSum,
                                        handle);
  });
}

void ScheduleExecutor::reduce_scatter_gradient(const Action& action, StreamHandle stream) {
  const at::Tensor whole = parts_.storage.gradients().sendable(action.unit, action.grad_slot);
  const at::Tensor shard = parts_.storage.gradients().shard(action.unit);
  const bool straight = !action.accumulate && shard.scalar_type() == reduce_type_;
  const at::Tensor sum = straight ? shard : parts_.storage.gradients().reduce_output(action.unit);
  std::int64_t begin = 0;  // of the part, in this rank's sum
  for (const UnitPart& part : parts_.table.units[action.unit].trainable_parts()) {
    const FlatLayout& layout = part.layout;
    const std::int64_t whole_begin = begin * (layout.numel / layout.shard_numel);
    parts_.ranks.reduce().reduce_scatter(whole.narrow(0, whole_begin, layout.numel).data_ptr(),
                                         sum.narrow(0, begin, layout.shard_numel).data_ptr(),
                                         layout.shard_numel, communicator_type(reduce_type_),
                                         stream);
    begin += layout.shard_numel;
  }
  if (straight) return;
  if (action.accumulate) {
    shard.add_(sum);
  } else {
    shard.copy_(sum);
  }
}

// Blocks write all but the gaps of the unit.
void ScheduleExecutor::clear_gradient(const Action& action) {
  const GradientStorage& gradients = parts_.storage.gradients();
  if (action.grad_slot < 0 || !gradients.clears(action.grad_slot)) return;
  gradients.whole(action.unit, action.grad_slot).zero_();
}

void ScheduleExecutor::poison(int weight_slot) {
  parts_.streams.compute->run(
      [&](StreamHandle) { parts_.storage.weight_slot(weight_slot).fill_(kNanByte); });
}

}  // namespace packtrain

#include "parallel/sharding/sharded_model.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>

#include "models/block/batch.h"
#include "parallel/sharding/self_test.h"

namespace packtrain {
namespace {

SlotOptions slot_options(const ShardingOptions& options, const ProcessMesh& mesh) {
  return {options.zero_stage, options.gather_slots, options.resident_embeddings,
          mesh.shard.size,    mesh.replicate.size,  options.sums_locally};
}

ShardingStreams make_streams(Device& device, int num_events, Stream* compute) {
  ShardingStreams streams;
  streams.compute = compute != nullptr ? std::shared_ptr<Stream>(compute, [](Stream*) {})
                                       : std::shared_ptr(device.make_stream(StreamKind::kCompute));
  streams.gather = device.make_stream(StreamKind::kGather);
  streams.reduce = device.make_stream(StreamKind::kReduce);
  for (int e = 0; e < num_events; ++e) streams.events.push_back(device.make_event());
  return streams;
}

}  // namespace

ShardedModel::ShardedModel(std::vector<std::unique_ptr<Block>> blocks, Device& device,
                           ShardingCommunicators communicators, const ShardingOptions& options)
    : blocks_(std::move(blocks)),
      ranks_(std::move(communicators)),
      table_(make_unit_table(blocks_, ranks_.mesh().shard.size)),
      slots_(make_slot_table(table_, slot_options(options, ranks_.mesh()))),
      storage_(std::make_unique<ShardedStorage>(table_, slots_, device, ranks_.gather(),
                                                ranks_.reduce(), options)),
      parameters_(table_, slots_, ranks_, *storage_, streams_, device),
      executor_({blocks_, ranks_, table_, slots_, *storage_, streams_, operator_options_, device},
                options),
      streams_(make_streams(device, slots_.num_events(), options.compute)),
      exceptions_at_start_(std::uncaught_exceptions()) {
  begin_step(/*num_micro_batches=*/1);
  if (options.self_test) test_collectives({*storage_, table_, slots_, ranks_, streams_});
}

ShardedModel::~ShardedModel() {
  if (std::uncaught_exceptions() != exceptions_at_start_) ranks_.abort();
}

at::Tensor ShardedModel::train(std::span<DeviceBatch> micro_batches) {
  return run(cached_schedule(micro_batches.size(), true), micro_batches);
}

PassResult ShardedModel::try_train(std::span<DeviceBatch> micro_batches) {
  return try_run(micro_batches, /*training=*/true);
}

void ShardedModel::join_step(std::size_t num_micro_batches) {
  join(num_micro_batches, /*training=*/true);
}

at::Tensor ShardedModel::evaluate(std::span<DeviceBatch> micro_batches) {
  return run(cached_schedule(micro_batches.size(), false), micro_batches);
}

PassResult ShardedModel::try_evaluate(std::span<DeviceBatch> micro_batches) {
  return try_run(micro_batches, /*training=*/false);
}

void ShardedModel::join_evaluation(std::size_t num_micro_batches) {
  join(num_micro_batches, /*training=*/false);
}

at::Tensor ShardedModel::run(const Schedule& schedule, std::span<DeviceBatch> micro_batches) {
  const bool trains = std::ranges::any_of(
      schedule, [](const Action& action) { return action.kind == ActionKind::kBackward; });
  if (trains) begin_step(micro_batches.size());
  return executor_.run(schedule, micro_batches, /*survives=*/false).loss;
}

PassResult ShardedModel::try_run(std::span<DeviceBatch> micro_batches, bool training) {
  if (training) begin_step(micro_batches.size());
  return executor_.run(cached_schedule(micro_batches.size(), training), micro_batches,
                       /*survives=*/true);
}

void ShardedModel::join(std::size_t num_micro_batches, bool training) {
  if (training) begin_step(num_micro_batches);
  executor_.join(cached_schedule(num_micro_batches, training));
}

void ShardedModel::begin_step(std::size_t num_micro_batches) {
  try {
    compute().run([&](StreamHandle) { storage_->begin_step(num_micro_batches > 1); });
  } catch (const c10::OutOfMemoryError& error) {
    throw OutOfMemory("the allocation of gradients", -1, 0, error.what());
  }
}

const Schedule& ShardedModel::cached_schedule(std::size_t num_micro_batches, bool training) {
  const auto [it, inserted] = schedules_.try_emplace({num_micro_batches, training});
  if (inserted) {
    const ScheduleOptions options{static_cast<int>(num_micro_batches), training};
    it->second = make_schedule(table_, slots_, options);
  }
  return it->second;
}

}  // namespace packtrain

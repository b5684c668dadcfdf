// Steps and evaluations by name, and the operations between them.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "models/block/batch.h"
#include "parallel/sharding/sharded_model.h"

namespace packtrain {

std::string ShardedModel::paths() const {
  return "gathers by " + gather_->path() + ", reductions by " + reduce_->path();
}

void ShardedModel::poll_errors() const {
  for (Communicator* communicator : {gather_.get(), reduce_.get(), replicas_.get()}) {
    if (communicator != nullptr) communicator->poll_error();
  }
}

ShardedModel::Trained ShardedModel::try_train(std::span<DeviceBatch> micro_batches) {
  return try_run(micro_batches, /*training=*/true);
}

void ShardedModel::join_step(std::size_t num_micro_batches) {
  join(num_micro_batches, /*training=*/true);
}

ShardedModel::Trained ShardedModel::try_evaluate(std::span<DeviceBatch> micro_batches) {
  return try_run(micro_batches, /*training=*/false);
}

void ShardedModel::join_evaluation(std::size_t num_micro_batches) {
  join(num_micro_batches, /*training=*/false);
}

const Schedule& ShardedModel::cached_schedule(std::size_t num_micro_batches, bool training) {
  const auto [it, inserted] = schedules_.try_emplace({num_micro_batches, training});
  if (inserted) {
    const ScheduleOptions options{static_cast<int>(num_micro_batches), training};
    it->second = make_schedule(table_, slots_, options);
  }
  return it->second;
}

void ShardedModel::begin_step(std::size_t num_micro_batches) {
  try {
    compute_->run([&](StreamHandle) { storage_->begin_step(num_micro_batches > 1); });
  } catch (const c10::OutOfMemoryError& error) {
    throw OutOfMemory("the allocation of gradients", -1, 0, error.what());
  }
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

void ShardedModel::broadcast_first_replica() {
  if (replicas_ == nullptr) return;
  compute_->run([this](StreamHandle handle) {
    for (int unit = 0; unit < slots_.num_units; ++unit) {
      for (const at::Tensor& part : storage_->owned_state(unit)) {
        if (part.numel() > 0) replicas_->broadcast(part.data_ptr(), part.nbytes(), 0, handle);
      }
    }
  });
  compute_->synchronize();
}

void ShardedModel::unit_updated(int unit) {
  compute_->record(*events_[slots_.updated(unit)]);
}

// Ranks take decisions by these sums, so all need the same bits. The sums of the groups are added
// in the groups' order, because libraries may add in another order for each position in a group.
void ShardedModel::sum_over_ranks(const at::Tensor& values) {
  compute_->run([&](StreamHandle handle) {
    const at::NoGradGuard no_grad;
    const std::int64_t numel = values.numel();
    reduce_->all_reduce(values.data_ptr(), numel, DataType::kFloat32, ReduceOp::kSum, handle);
    if (replicas_ == nullptr) return;
    const at::Tensor groups = at::empty({replicas_->size(), numel}, values.options());
    replicas_->all_gather(values.const_data_ptr(), groups.data_ptr(), numel, DataType::kFloat32,
                          handle);
    values.copy_(groups.sum(0));
  });
}

// Groups are consecutive ranks, so the groups one after another are the ranks in order.
at::Tensor ShardedModel::gather_over_ranks(const at::Tensor& values) {
  const std::int64_t numel = values.numel();
  at::Tensor all = values;
  compute_->run([&](StreamHandle handle) {
    for (Communicator* communicator : {reduce_.get(), replicas_.get()}) {
      if (communicator == nullptr) continue;
      at::Tensor more = at::empty({communicator->size() * all.numel()}, all.options());
      communicator->all_gather(all.const_data_ptr(), more.data_ptr(), all.numel(), DataType::kInt64,
                               handle);
      all = more;
    }
  });
  return all.view({-1, numel});
}

}  // namespace packtrain

#include "parallel/sharding/shard_ranks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include <cstdint>
#include <utility>

namespace packtrain {

ShardRanks::ShardRanks(ShardingCommunicators communicators)
    : communicators_(std::move(communicators)) {}

ProcessMesh ShardRanks::mesh() const {
  return {.replicate = axis_of(replicas()), .shard = axis_of(&gather())};
}

std::string ShardRanks::paths() const {
  return "gathers by " + gather().path() + ", reductions by " + reduce().path();
}

void ShardRanks::poll_errors() const {
  for (Communicator* communicator : {&gather(), &reduce(), replicas()}) {
    if (communicator != nullptr) communicator->poll_error();
  }
}

void ShardRanks::abort() {
  gather().abort();
  reduce().abort();
  if (replicas() != nullptr) replicas()->abort();
}

// Ranks take decisions by these sums, so all need the same bits. The sums of the groups are added
// in the groups' order, because libraries may add in another order for each position in a group.
at::Tensor ShardRanks::sum_scratch(const at::Tensor& values) const {
  const std::int64_t num_groups = replicas() == nullptr ? 0 : replicas()->size();
  return at::empty({num_groups, values.numel()}, values.options());
}

void ShardRanks::sum(const at::Tensor& values, Stream& compute, const at::Tensor& scratch) const {
  compute.run([&](StreamHandle handle) {
    const at::NoGradGuard no_grad;
    const std::int64_t numel = values.numel();
    reduce().all_reduce(values.data_ptr(), numel, DataType::kFloat32, ReduceOp::kSum, handle);
    if (replicas() == nullptr) return;
    const at::Tensor groups = scratch.defined() ? scratch : sum_scratch(values);
    replicas()->all_gather(values.const_data_ptr(), groups.data_ptr(), numel, DataType::kFloat32,
                           handle);
    at::Tensor total = values;
    at::sum_out(total, groups, 0);
  });
}

void ShardRanks::max(const at::Tensor& values, Stream& compute) const {
  if (reduce().size() == 1) return;
  compute.run([&](StreamHandle handle) {
    reduce().all_reduce(values.data_ptr(), values.numel(), DataType::kInt32, ReduceOp::kMax,
                        handle);
  });
}

// Groups are consecutive ranks, so the groups one after another are the ranks in order.
at::Tensor ShardRanks::gather_all(const at::Tensor& values, Stream& compute) const {
  const std::int64_t numel = values.numel();
  at::Tensor all = values;
  compute.run([&](StreamHandle handle) {
    for (Communicator* communicator : {&reduce(), replicas()}) {
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

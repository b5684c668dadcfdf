#include "training/saving/state_snapshot.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <utility>

namespace packtrain {
namespace {

void copy(const at::Tensor& from, const at::Tensor& to) {
  if (from.defined()) to.copy_(from, /*non_blocking=*/true);
}

}  // namespace

StateSnapshot::StateSnapshot(std::span<const ShardView> shards, Device& device)
    : from_(shards.begin(), shards.end()),
      to_(from_),
      stream_(device.make_stream(StreamKind::kCopy)),
      written_(device.make_event()),
      taken_(device.make_event()) {
  for (ShardView& shard : to_) {
    if (!shard.weight_on_host) shard.weight = host_copy_of(shard.weight, device);
    if (shard.optimizer_on_host) continue;
    for (OptimizerTensor& tensor : shard.optimizer) {
      tensor.values = host_copy_of(tensor.values, device);
    }
  }
}

at::Tensor StateSnapshot::host_copy_of(const at::Tensor& tensor, Device& device) {
  if (!tensor.defined()) return {};
  if (tensor.numel() == 0) return tensor.cpu();
  buffers_.push_back(device.allocate_host(tensor.nbytes()));
  return at::from_blob(buffers_.back().data, tensor.sizes(),
                       at::TensorOptions(tensor.scalar_type()));
}

void StateSnapshot::take(Stream& compute) {
  compute.record(*written_);
  stream_->wait(*written_);
  stream_->run([this](StreamHandle) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < from_.size(); ++i) {
      if (!from_[i].weight_on_host) copy(from_[i].weight, to_[i].weight);
      if (from_[i].optimizer_on_host) continue;
      for (std::size_t t = 0; t < from_[i].optimizer.size(); ++t) {
        copy(from_[i].optimizer[t].values, to_[i].optimizer[t].values);
      }
    }
  });
  stream_->record(*taken_);
}

std::span<const ShardView> StateSnapshot::shards() {
  taken_->synchronize();
  return to_;
}

}  // namespace packtrain

// Copies a rank's shards to host memory while the device computes. An asynchronous checkpoint is
// written from the copy.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "framework/device/device.h"
#include "parallel/sharding/shard_view.h"

namespace packtrain {

class StateSnapshot {
 public:
  // Allocates host memory (pinned on CUDA) for all of `shards` that is not in host memory, which
  // must outlive it. Throws Error(kDevice) when there is not enough.
  StateSnapshot(std::span<const ShardView> shards, Device& device);

  // Copies the shards in the state after all work already queued on `compute`. A stream must not
  // write them before wait_until_copied() was called on it.
  void take(Stream& compute);
  // Work queued on `writer` after this call starts when the copy is complete.
  void wait_until_copied(Stream& writer) { writer.wait(*taken_); }
  // The copy, on the CPU, and tensors of the model itself that are in host memory. Blocks the host
  // until it is complete.
  std::span<const ShardView> shards();

 private:
  at::Tensor host_copy_of(const at::Tensor& tensor, Device& device);

  std::vector<ShardView> from_;
  std::vector<ShardView> to_;
  std::vector<HostBuffer> buffers_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> written_;  // by the computation
  std::unique_ptr<Event> taken_;
};

}  // namespace packtrain

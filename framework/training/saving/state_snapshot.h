// A copy of a rank's shards in host memory, made beside the computation: what an asynchronous
// checkpoint is written from.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "framework/device/device.h"
#include "parallel/sharding/shard_view.h"

namespace packtrain {

class StateSnapshot {
 public:
  // Allocates host memory (pinned on CUDA) for all of `shards`, which must outlive it. Throws
  // Error(kDevice) where there is not enough.
  StateSnapshot(std::span<const ShardView> shards, Device& device);

  // Copies the shards as they are behind what `compute` was given so far. Nobody may write them
  // before wait_until_copied() was called on the stream that does.
  void take(Stream& compute);
  // What `writer` is given from now on starts when the copy is there.
  void wait_until_copied(Stream& writer) { writer.wait(*taken_); }
  // The copy, on the CPU. The host waits for it.
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

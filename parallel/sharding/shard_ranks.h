// The ranks that a model is sharded over, with communicators along the axes of the mesh.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "framework/device/device.h"
#include "parallel/communicators/communicator.h"
#include "parallel/communicators/process_mesh.h"

namespace packtrain {

// `gather` and `reduce`: two communicators along the mesh's shard axis, used from separate streams.
// `replicas`: along its replicate axis, over the ranks that own the same part in each group; null
// for one group.
struct ShardingCommunicators {
  std::unique_ptr<Communicator> gather;
  std::unique_ptr<Communicator> reduce;
  std::unique_ptr<Communicator> replicas = nullptr;
};

class ShardRanks {
 public:
  explicit ShardRanks(ShardingCommunicators communicators);

  Communicator& gather() const { return *communicators_.gather; }
  Communicator& reduce() const { return *communicators_.reduce; }
  Communicator* replicas() const { return communicators_.replicas.get(); }  // or null

  ProcessMesh mesh() const;
  // True for the one replica of this rank's part of the model that saves it.
  bool saves_shards() const { return mesh().replicate.rank == 0; }
  // The paths of gathers and reductions, as text.
  std::string paths() const;
  // Throws Error(kDevice) when a communicator has met a fault that no call reported. Any thread may
  // call it.
  void poll_errors() const;
  void abort();

  // Sums float32 [n] over all ranks, on the compute stream, between calls of train and evaluate.
  // With `scratch` of sum_scratch() it allocates nothing.
  void sum(const at::Tensor& values, Stream& compute, const at::Tensor& scratch = {}) const;
  // The largest of the ranks of a shard group: int32 [n], on the compute stream, as sum().
  void max(const at::Tensor& values, Stream& compute) const;
  at::Tensor sum_scratch(const at::Tensor& values) const;
  // Gathers int64 [n] of every rank to int64 [ranks, n], on the compute stream, between calls of
  // train and evaluate.
  at::Tensor gather_all(const at::Tensor& values, Stream& compute) const;

 private:
  ShardingCommunicators communicators_;
};

}  // namespace packtrain

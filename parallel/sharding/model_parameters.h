// What optimizers and checkpoints read and write of a sharded model between steps.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/sharding/matrix_exchange.h"
#include "parallel/sharding/owned_state.h"
#include "parallel/sharding/replicated_state.h"
#include "parallel/sharding/schedule.h"
#include "parallel/sharding/shard_ranks.h"
#include "parallel/sharding/sharding_streams.h"
#include "parallel/sharding/state_stream.h"
#include "parallel/sharding/storage.h"
#include "parallel/sharding/unit_table.h"

namespace packtrain {

class ModelParameters {
 public:
  // The arguments outlive it.
  ModelParameters(const UnitTable& table, const SlotTable& slots, const ShardRanks& ranks,
                  ShardedStorage& storage, ShardingStreams& streams, Device& device);

  std::vector<ShardView> shards() const { return storage_.owned().shard_views(); }
  FlatState& state() { return storage_.owned().flat(); }
  const std::vector<OptimizerRange>& optimizer_ranges() const {
    return storage_.owned().optimizer_ranges();
  }
  // The optimizer's state of elements of FlatState (OwnedState::optimizer_state).
  at::Tensor master(const OptimizerRange& range) const { return storage_.owned().master(range); }
  std::vector<OptimizerTensor> optimizer_state(std::int64_t begin, std::int64_t numel) const {
    return storage_.owned().optimizer_state(begin, numel);
  }
  std::vector<ReplicatedState> replicated_state() const {
    return packtrain::replicated_state(storage_, table_, slots_);
  }

  // Collective. Call it after writing weights through shards(): it refreshes the weights that are
  // gathered, and their scales.
  void weights_changed();
  // Collective, both on the compute stream, around an update of the optimizer, which writes nothing
  // where `skip` (uint8 []) is 1. They are for the scales of 8-bit products: the update enters the
  // amaxes of trained weights (WeightScales::amax) in between.
  void begin_update(const at::Tensor& skip);
  void end_update();
  // Work enqueued on compute so far writes the unit's weights. The next step may gather them after
  // it. A unit that is gathered as codes waits for end_update(), which knows the scales.
  void unit_updated(int unit);
  // Collective. Sends what the first replica has written through shards(), weights and optimizer
  // state, to all others. So only one replica reads files. Blocks the host.
  void broadcast_first_replica();

  // Streams state that is in host memory (ShardingOptions::offload_state) through the device, in
  // pieces of at most `slot_bytes`. The model outlives it.
  std::unique_ptr<StateStream> make_state_stream(std::int64_t slot_bytes);

  // Collective. Brings the chosen matrices of ShardedModel::gradient(), or of a buffer like it, to
  // one rank each. `type`: of the elements that ranks send. The model outlives it.
  std::unique_ptr<MatrixExchange> make_matrix_exchange(const IsOrthogonalised& choose,
                                                       at::ScalarType type);

  const WeightScales& scales() const { return storage_.scales(); }

  // Bytes of communication memory, which the device's allocator does not count.
  std::int64_t communication_bytes() const { return storage_.communication_bytes(); }

 private:
  void write_scales();
  void record_updated(int unit);

  const UnitTable& table_;
  const SlotTable& slots_;
  const ShardRanks& ranks_;
  ShardedStorage& storage_;
  ShardingStreams& streams_;
  Device& device_;
};

}  // namespace packtrain

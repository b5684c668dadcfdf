// The memory of gradients on one rank: slots and local sums that blocks write, and this rank's part
// of the sum over ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "parallel/communicators/communicator.h"
#include "parallel/sharding/owned_state.h"
#include "parallel/sharding/schedule.h"
#include "parallel/sharding/slot_sizes.h"

namespace packtrain {

class GradientStorage {
 public:
  // Collective over `reduce`, which sums the slots. `owned` has the places of the units.
  GradientStorage(const UnitTable& table, const SlotTable& slots, const SlotSizes& sizes,
                  const OwnedState& owned, at::Device device, Communicator& reduce,
                  at::ScalarType dtype);

  // The dtype of the sum in a step: float32 where the sums of several micro-batches are added up,
  // else the reduce dtype.
  at::ScalarType sum_type(bool several_micro_batches) const;
  // Makes `type` the dtype of the sum. One rank then allocates more memory if needed. The caller
  // has dropped its views of the old memory. Several ranks have the memory from the start.
  void set_sum_type(at::ScalarType type);

  // 1-D [n], in the layout of FlatState. Undefined before the first step.
  const at::Tensor& sum() const { return sum_; }
  at::Tensor shard(int unit) const;  // 1-D view of sum()
  // The memory that blocks write: 1-D, the unit's trainable parts one after another, reduce dtype;
  // a local sum is float32. In place it is shard().
  at::Tensor whole(int unit, int grad_slot) const;
  // What whole() holds, in the reduce dtype, to be sent. Rounds a local sum on the current stream.
  at::Tensor sendable(int unit, int grad_slot) const;
  at::Tensor reduce_output(int unit) const;  // 1-D, reduce dtype
  // True when units of different layouts share the gradient slot, so that gaps must be cleared.
  bool clears(int grad_slot) const {
    return !slots_.is_local_sum(grad_slot) && slot_mixed_.at(grad_slot);
  }
  std::int64_t communication_bytes() const { return communication_bytes_; }
  // Of the local sums, where they are not communication memory.
  std::int64_t local_sum_bytes() const;

 private:
  // Collective. Slots, output of a reduction and memory of the sum, for several ranks.
  void allocate(const SlotSizes& sizes, Communicator& reduce);
  void allocate_local_sums(Communicator& reduce);
  void zero_padding();

  const UnitTable& table_;
  const SlotTable& slots_;
  const OwnedState& owned_;
  at::Device device_;
  at::ScalarType dtype_;
  std::vector<at::Tensor> slot_memory_;
  std::vector<bool> slot_mixed_;
  std::vector<std::int64_t> local_sum_begin_;  // [units] in local_sums_
  at::Tensor local_sums_;                      // float32; undefined without them
  at::Tensor reduce_output_;
  at::Tensor sum_memory_;  // bytes
  at::Tensor sum_;         // view of it
  std::int64_t communication_bytes_ = 0;
};

}  // namespace packtrain

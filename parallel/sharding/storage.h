// All memory of a sharded model on one rank, allocated once: the owned state, weight slots and
// gradients. It also makes the views that blocks use.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "framework/device/device.h"
#include "parallel/communicators/communicator.h"
#include "parallel/sharding/gradient_storage.h"
#include "parallel/sharding/owned_state.h"
#include "parallel/sharding/schedule.h"
#include "parallel/sharding/sharding_options.h"
#include "parallel/sharding/weight_scales.h"

namespace packtrain {

// A block's backward does this with the gradients of its parameters.
enum class GradientWrite : std::uint8_t {
  kWrite,
  kAddShared,  // adds to those that a later block has written, and writes the others
  kAdd         // adds to all: an earlier micro-batch has written them
};

class ShardedStorage {
 public:
  // Collective over both communicators.
  ShardedStorage(const UnitTable& table, const SlotTable& slots, Device& device,
                 Communicator& gather, Communicator& reduce, const ShardingOptions& options);

  OwnedState& owned() { return owned_; }
  const OwnedState& owned() const { return owned_; }
  WeightScales& scales() { return scales_; }
  const WeightScales& scales() const { return scales_; }
  const GradientStorage& gradients() const { return gradients_; }

  // This rank sends it in the gather of a part of a unit: 1-D. All parts share the memory of codes,
  // which encode_sent() writes.
  at::Tensor sent_weights(int unit, std::size_t part) const;
  // Call it before the gather, on its stream. Does nothing for a part that is not gathered as
  // codes.
  void encode_sent(int unit, std::size_t part) const;
  // The destination of the gather: 1-D, of FlatLayout::gathered_type. One rank: the owned weights.
  const at::Tensor& gathered_weights(int unit, std::size_t part) const {
    return gathered_.at(unit).at(part);
  }
  at::Tensor weight_slot(int slot) const { return weight_slots_.at(slot); }  // bytes

  // Call it before every training step, on the compute stream. It selects the dtype of the
  // gradient's sum.
  void begin_step(bool several_micro_batches);
  // A block's parameters as views, created once for each gradient slot (-1: no gradients).
  const std::vector<Parameter>& parameters(int block, int grad_slot, GradientWrite write);

  // Communication memory, which the device's allocator does not count.
  std::int64_t communication_bytes() const;

 private:
  using ViewKey = std::tuple<int, int, GradientWrite>;  // block, gradient slot

  // Collective, as allocate_arena().
  std::vector<at::Tensor> allocate_weight_slots(const SlotSizes& sizes, at::Device device,
                                                Communicator& gather);
  void allocate_decoded_weight(at::Device device);
  bool gathers_codes(int unit, std::size_t part) const {
    return slots_.gathers() && table_.units[unit].parts[part].layout.gathers_codes();
  }
  std::vector<at::Tensor> gathered_parts(int unit) const;
  void set_codes(Parameter& parameter, const at::Tensor& codes, const Segment& segment) const;
  std::vector<Parameter> make_views(int block, int grad_slot, GradientWrite write) const;

  const UnitTable& table_;
  const SlotTable& slots_;
  std::int64_t weight_slot_bytes_ = 0;
  OwnedState owned_;
  WeightScales scales_;
  // Bytes; work on the gather stream uses it. The allocation of the slots sets it, so it is before.
  at::Tensor sent_codes_;
  std::vector<at::Tensor> weight_slots_;           // bytes
  std::vector<std::vector<at::Tensor>> gathered_;  // [units][parts], views of the slots
  // Of the largest encoded parameter, in the type of products. Work on the compute stream alone
  // writes and reads it. Undefined if none is encoded.
  at::Tensor decoded_weight_;
  GradientStorage gradients_;
  std::map<ViewKey, std::vector<Parameter>> views_;
};

}  // namespace packtrain

#include "parallel/sharding/storage.h"

#include <utility>

#include "framework/device/tensor_device.h"
#include "parallel/sharding/arena.h"
#include "parallel/sharding/slot_sizes.h"

namespace packtrain {

ShardedStorage::ShardedStorage(const UnitTable& table, const SlotTable& slots, const Device& device,
                               Communicator& gather, Communicator& reduce,
                               const ShardingOptions& options)
    : table_(table),
      slots_(slots),
      owned_(table, tensor_device(device), gather, options),
      weight_slots_(allocate_weight_slots(slot_sizes(table, slots), tensor_device(device), gather,
                                          options.compute)),
      gradients_(table, slots, slot_sizes(table, slots), owned_, tensor_device(device), reduce,
                 options.reduce) {}

std::vector<at::Tensor> ShardedStorage::allocate_weight_slots(const SlotSizes& sizes,
                                                              at::Device device,
                                                              Communicator& gather,
                                                              at::ScalarType type) {
  if (!slots_.gathers()) return std::vector<at::Tensor>(sizes.weights.size());
  std::vector<ArenaPart> parts;
  for (const std::int64_t numel : sizes.weights) parts.push_back({numel, type});
  Arena arena = allocate_arena(gather, device, parts);
  weight_slot_bytes_ = arena.num_bytes;
  return std::move(arena.tensors);
}

void ShardedStorage::begin_step(bool several_micro_batches) {
  const at::ScalarType type = gradients_.sum_type(several_micro_batches);
  if (gradients_.sum().defined() && gradients_.sum().scalar_type() == type) return;
  if (slots_.grads_in_place) views_.clear();  // they are of the sum and keep its memory alive
  gradients_.set_sum_type(type);
}

at::Tensor ShardedStorage::gathered_weights(int unit, bool trainable) const {
  if (!slots_.gathers()) return owned_.weights(unit, trainable);
  const Unit& u = table_.units[unit];
  const at::Tensor& slot = weight_slots_[slots_.weight_slot_of_unit[unit]];
  return trainable ? slot.narrow(0, 0, u.trainable.numel)
                   : slot.narrow(0, u.trainable.numel, u.frozen.numel);
}

std::int64_t ShardedStorage::communication_bytes() const {
  return owned_.communication_bytes() + weight_slot_bytes_ + gradients_.communication_bytes();
}

const std::vector<Parameter>& ShardedStorage::parameters(int block, int grad_slot,
                                                         bool accumulate) {
  const auto [it, inserted] = views_.try_emplace({block, grad_slot, accumulate});
  if (inserted) it->second = make_views(block, grad_slot, accumulate);
  return it->second;
}

std::vector<Parameter> ShardedStorage::make_views(int block, int grad_slot, bool accumulate) const {
  const int u = table_.unit_of_block[block];
  const Unit& unit = table_.units[u];
  std::vector<Parameter> views;
  for (const ParameterPlace& place : table_.places[block]) {
    const FlatLayout& layout = place.trainable ? unit.trainable : unit.frozen;
    const Segment& segment = layout.segments[place.segment];
    const auto view = [&](const at::Tensor& flat) {
      return flat.narrow(0, segment.offset, segment.numel).view(segment.spec.shape);
    };
    Parameter parameter;
    parameter.value = view(gathered_weights(u, place.trainable));
    if (place.trainable && grad_slot >= 0) parameter.grad = view(gradients_.whole(u, grad_slot));
    parameter.accumulate = accumulate;
    views.push_back(std::move(parameter));
  }
  return views;
}

}  // namespace packtrain

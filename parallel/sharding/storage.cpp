#include "parallel/sharding/storage.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <memory>

#include "framework/device/tensor_device.h"
#include "parallel/sharding/slot_sizes.h"

namespace packtrain {
namespace {

std::vector<ArenaPart> parts_of(const std::vector<std::int64_t>& numels, at::ScalarType type) {
  std::vector<ArenaPart> parts;
  for (const std::int64_t numel : numels) parts.push_back({numel, type});
  return parts;
}

}  // namespace

ShardedStorage::ShardedStorage(const UnitTable& table, const SlotTable& slots, const Device& device,
                               Communicator& gather, Communicator& reduce,
                               const ShardingOptions& options)
    : table_(table),
      slots_(slots),
      options_(options),
      gather_(gather),
      reduce_(reduce),
      device_(tensor_device(device)) {
  place_units();
  allocate_state();
  allocate_slots();
}

std::vector<at::Tensor> ShardedStorage::allocate(Communicator& communicator,
                                                 std::span<const ArenaPart> parts) {
  Arena arena = allocate_arena(communicator, device_, parts);
  communication_bytes_ += arena.num_bytes;
  return std::move(arena.tensors);
}

void ShardedStorage::place_units() {
  std::int64_t first_element = 0;  // of the unit, in the whole model
  for (int u = 0; u < slots_.num_units; ++u) {
    const Unit& unit = table_.units[u];
    trainable_begin_.push_back(trainable_numel_);
    frozen_begin_.push_back(frozen_numel_);
    if (!unit.trainable.empty()) {
      for (const DecayRange& run : decay_ranges(unit.trainable, gather_.rank())) {
        const std::int64_t in_unit = gather_.rank() * unit.trainable.shard_numel + run.begin;
        optimizer_ranges_.push_back(
            {u, trainable_numel_ + run.begin, run.numel, run.decay, first_element + in_unit});
      }
      first_element += numel_without_padding(unit.trainable);
    }
    trainable_numel_ += unit.trainable.shard_numel;
    frozen_numel_ += unit.frozen.shard_numel;
  }
}

void ShardedStorage::allocate_state() {
  const auto float32 = at::TensorOptions().dtype(at::kFloat).device(device_);
  const bool master_is_weight = options_.compute == at::kFloat;
  const std::array<ArenaPart, 2> owned = {
      {{trainable_numel_, options_.compute}, {frozen_numel_, options_.compute}}};
  const std::vector<at::Tensor> tensors = allocate(gather_, owned);
  state_.weight = tensors[0];
  frozen_ = tensors[1];
  state_.master = master_is_weight ? state_.weight : at::zeros({trainable_numel_}, float32);
  for (const OptimizerStateSpec& spec : options_.optimizer_state) {
    state_.optimizer.push_back(
        {spec.name, at::zeros({state_values(spec, trainable_numel_)}, float32.dtype(spec.dtype))});
  }
}

void ShardedStorage::allocate_slots() {
  const SlotSizes sizes = slot_sizes(table_, slots_);
  grad_slot_mixed_ = sizes.is_mixed;
  weight_slots_.resize(sizes.weights.size());
  if (slots_.gathers())
    weight_slots_ = allocate(gather_, parts_of(sizes.weights, options_.compute));
  if (slots_.grads_in_place) return;
  grad_slots_ = allocate(reduce_, parts_of(sizes.gradients, options_.reduce));
  const std::array<ArenaPart, 2> sums = {
      {{sizes.largest_shard, options_.reduce}, {trainable_numel_, at::kFloat}}};
  const std::vector<at::Tensor> tensors = allocate(reduce_, sums);
  const std::int64_t largest = sizes.largest_shard * reduce_.size();
  communication_bytes_ +=
      static_cast<std::int64_t>(reduce_.allocate_scratch(largest * elementSize(options_.reduce)));
  reduce_output_ = tensors[0];
  gradient_memory_ = tensors[1].view(at::kByte);
}

void ShardedStorage::begin_step(bool several_micro_batches) {
  const at::ScalarType type = several_micro_batches ? at::kFloat : options_.reduce;
  if (gradient_.defined() && gradient_.scalar_type() == type) return;
  const std::int64_t num_bytes = trainable_numel_ * static_cast<std::int64_t>(elementSize(type));
  if (!gradient_memory_.defined() || gradient_memory_.numel() < num_bytes) {
    views_.clear();  // the views keep the memory alive
    gradient_ = gradient_memory_ = at::Tensor();
    gradient_memory_ = at::empty({num_bytes}, at::TensorOptions().dtype(at::kByte).device(device_));
  }
  gradient_ = gradient_memory_.narrow(0, 0, num_bytes).view(type);
  if (!slots_.grads_in_place) return;
  views_.clear();
  zero_padding();
}

// Blocks write all but the gaps, which may hold numbers of the other dtype.
void ShardedStorage::zero_padding() {
  for (std::size_t u = 0; u < table_.units.size(); ++u) {
    const FlatLayout& layout = table_.units[u].trainable;
    std::int64_t end = 0;
    const auto clear_up_to = [&](std::int64_t begin) {
      if (begin > end) gradient_.narrow(0, trainable_begin_[u] + end, begin - end).zero_();
    };
    for (const Segment& segment : layout.segments) {
      clear_up_to(segment.offset);
      end = segment.offset + segment.numel;
    }
    clear_up_to(layout.numel);
  }
}

at::Tensor ShardedStorage::owned_weights(int unit, bool trainable) const {
  const Unit& u = table_.units[unit];
  return trainable ? state_.weight.narrow(0, trainable_begin_[unit], u.trainable.shard_numel)
                   : frozen_.narrow(0, frozen_begin_[unit], u.frozen.shard_numel);
}

at::Tensor ShardedStorage::gathered_weights(int unit, bool trainable) const {
  if (!slots_.gathers()) return owned_weights(unit, trainable);
  const Unit& u = table_.units[unit];
  const at::Tensor& slot = weight_slots_[slots_.weight_slot_of_unit[unit]];
  return trainable ? slot.narrow(0, 0, u.trainable.numel)
                   : slot.narrow(0, u.trainable.numel, u.frozen.numel);
}

std::vector<OptimizerTensor> ShardedStorage::optimizer_part(std::int64_t begin,
                                                            std::int64_t numel) const {
  std::vector<OptimizerTensor> part;
  for (std::size_t i = 0; i < state_.optimizer.size(); ++i) {
    const OptimizerStateSpec& spec = options_.optimizer_state[i];
    part.push_back({spec.name, state_.optimizer[i].values.narrow(0, state_values(spec, begin),
                                                                 state_values(spec, numel))});
  }
  return part;
}

std::vector<at::Tensor> ShardedStorage::owned_state(int unit) const {
  const std::int64_t begin = trainable_begin_[unit];
  const std::int64_t numel = table_.units[unit].trainable.shard_numel;
  std::vector<at::Tensor> all = {state_.master.narrow(0, begin, numel)};
  for (const OptimizerTensor& flat : optimizer_part(begin, numel)) all.push_back(flat.values);
  if (!state_.weight.is_same(state_.master)) all.push_back(owned_weights(unit, true));
  all.push_back(owned_weights(unit, false));
  return all;
}

at::Tensor ShardedStorage::gradient(int unit, int grad_slot) const {
  if (slots_.grads_in_place) return gradient_shard(unit);
  return grad_slots_[grad_slot].narrow(0, 0, table_.units[unit].trainable.numel);
}

at::Tensor ShardedStorage::gradient_shard(int unit) const {
  return gradient_.narrow(0, trainable_begin_[unit], table_.units[unit].trainable.shard_numel);
}

at::Tensor ShardedStorage::reduce_output(int unit) const {
  return reduce_output_.narrow(0, 0, table_.units[unit].trainable.shard_numel);
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
    if (place.trainable && grad_slot >= 0) parameter.grad = view(gradient(u, grad_slot));
    parameter.accumulate = accumulate;
    views.push_back(std::move(parameter));
  }
  return views;
}

std::vector<ShardView> ShardedStorage::shard_views() const {
  std::vector<ShardView> views;
  const auto add = [&](const FlatLayout& layout, bool trainable, std::int64_t base) {
    for (const Segment& segment : layout.segments) {
      const OwnedRange owned = owned_range(layout, segment, gather_.rank());
      if (owned.numel == 0) continue;
      ShardView view{segment.spec.name,
                     segment.spec.shape,
                     owned.parameter_begin,
                     owned.numel,
                     trainable,
                     {},
                     {}};
      const std::int64_t begin = base + owned.shard_begin;
      view.weight = (trainable ? state_.master : frozen_).narrow(0, begin, owned.numel);
      if (trainable) view.optimizer = optimizer_part(begin, owned.numel);
      views.push_back(std::move(view));
    }
  };
  for (std::size_t u = 0; u < table_.units.size(); ++u) {
    add(table_.units[u].trainable, true, trainable_begin_[u]);
    add(table_.units[u].frozen, false, frozen_begin_[u]);
  }
  return views;
}

}  // namespace packtrain

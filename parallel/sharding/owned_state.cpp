#include "parallel/sharding/owned_state.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "framework/device/tensor_device.h"
#include "framework/device/tensor_type.h"
#include "models/block/encoded_layout.h"
#include "parallel/sharding/arena.h"

namespace packtrain {

OwnedState::OwnedState(const UnitTable& table, Device& device, Communicator& gather,
                       const ShardingOptions& options)
    : table_(table),
      rank_(gather.rank()),
      layout_(make_owned_layout(table, options.offload_state)),
      state_layout_(options.optimizer_state, place_units()) {
  flat_.device = tensor_device(device);
  flat_.is_on_host = options.offload_state;
  flat_.numel = layout_.trainable_numel;
  allocate_weights(gather);
  allocate_state(device);
}

void OwnedState::allocate_weights(Communicator& gather) {
  std::vector<ArenaPart> parts;
  for (const WeightBuffer& buffer : layout_.buffers) {
    parts.push_back({buffer.numel, scalar_type(buffer.encoding.stored_type())});
  }
  Arena arena = allocate_arena(gather, flat_.device, parts);
  communication_bytes_ = arena.num_bytes;
  flat_.weights = std::move(arena.tensors);
}

void OwnedState::allocate_state(Device& device) {
  const auto found = std::ranges::find_if(layout_.buffers, &WeightBuffer::is_master_of_all);
  if (layout_.has_own_masters()) {
    flat_.master.reset();  // the weights are the masters
  } else if (flat_.is_on_host) {
    const std::int64_t bytes = offloaded_master_bytes(layout_);
    if (bytes > 0) flat_.master = make_state(device, layout_.trainable_numel, at::kFloat);
  } else if (found != layout_.buffers.end()) {
    flat_.master = flat_.weights[static_cast<std::size_t>(found - layout_.buffers.begin())];
  } else {
    flat_.master = make_state(device, layout_.trainable_numel, at::kFloat);
  }
  for (std::size_t s = 0; s < state_layout_.specs().size(); ++s) {
    const OptimizerStateSpec& spec = state_layout_.specs()[s];
    const at::Tensor state = make_state(device, state_layout_.num_values(s), spec.dtype);
    if (spec.first_byte != 0) state.view(at::kByte).fill_(spec.first_byte);
    flat_.optimizer.push_back({spec.name, state});
  }
}

at::Tensor OwnedState::make_state(Device& device, std::int64_t numel, at::ScalarType type) {
  if (!flat_.is_on_host || numel == 0) {
    return at::zeros({numel}, at::TensorOptions(type).device(flat_.device));
  }
  const auto bytes = static_cast<std::size_t>(numel) * at::elementSize(type);
  host_memory_.push_back(device.allocate_host(bytes));
  const HostBuffer& memory = host_memory_.back();
  at::Tensor state = at::from_blob(memory.data, {numel}, at::TensorOptions(type));
  return memory.is_zeroed ? state : state.zero_();
}

std::vector<StateRange> OwnedState::place_units() {
  std::vector<StateRange> state_ranges;
  std::int64_t first_element = 0;  // of the part, in the whole model
  std::int64_t state_begin = 0;    // of the unit
  for (int u = 0; u < static_cast<int>(table_.units.size()); ++u) {
    const Unit& unit = table_.units[u];
    trainable_begin_.push_back(state_begin);
    for (std::size_t p = 0; p < unit.trainable_parts().size(); ++p) {
      const FlatLayout& layout = unit.parts[p].layout;
      const OwnedPart& place = layout_.parts[u][p];
      for (const GroupRange& range : group_ranges(layout, rank_)) {
        const std::int64_t in_part = rank_ * layout.shard_numel + range.begin;
        optimizer_ranges_.push_back(
            {u, place.state_begin + range.begin, range.numel, range.group, first_element + in_part,
             place.buffer, place.begin + range.begin, range.adapter, range.scale, range.optimizer});
        state_ranges.push_back({range.numel, range.optimizer});
      }
      first_element += numel_without_padding(layout);
    }
    state_begin += unit.trainable_shard_numel();
  }
  return state_ranges;
}

bool OwnedState::is_master(int unit, std::size_t part) const {
  return layout_.buffers[layout_.parts[unit][part].buffer].is_master();
}

at::Tensor OwnedState::master(const OptimizerRange& range) const {
  if (layout_.buffers[range.weight_buffer].is_master()) {
    return flat_.weights[range.weight_buffer].narrow(0, range.weight_begin, range.numel);
  }
  return flat_.master.narrow(0, range.begin, range.numel);
}

at::Tensor OwnedState::master(int unit, std::size_t part) const {
  if (is_master(unit, part)) return weights(unit, part);
  return flat_.master.narrow(0, part_begin(unit, part),
                             table_.units[unit].parts[part].layout.shard_numel);
}

at::Tensor OwnedState::weights(int unit, std::size_t part) const {
  const OwnedPart& place = layout_.parts[unit][part];
  return flat_.weights[place.buffer].narrow(0, place.begin,
                                            table_.units[unit].parts[part].layout.shard_numel);
}

at::Tensor OwnedState::weights(int unit, std::size_t part, const Segment& segment) const {
  const OwnedRange owned = range(unit, part, segment);
  return weights(unit, part).narrow(0, owned.shard_begin, owned.numel);
}

void OwnedState::encode_master() {
  for (int u = 0; u < static_cast<int>(table_.units.size()); ++u) {
    for (std::size_t p = 0; p < table_.units[u].trainable_parts().size(); ++p) {
      if (!is_master(u, p)) weights(u, p).copy_(master(u, p));
    }
  }
}

std::vector<at::Tensor> OwnedState::of_unit(int unit) const {
  const std::int64_t begin = trainable_begin_[unit];
  const std::int64_t numel = table_.units[unit].trainable_shard_numel();
  std::vector<at::Tensor> all;
  if (flat_.master.defined()) all.push_back(flat_.master.narrow(0, begin, numel));
  for (const OptimizerTensor& part : optimizer_state(begin, numel)) all.push_back(part.values);
  const bool has_master = !flat_.is_on_host && !layout_.has_own_masters();
  for (std::size_t part = 0; part < table_.units[unit].parts.size(); ++part) {
    if (!has_master || !is_master(unit, part)) all.push_back(weights(unit, part));
  }
  return all;
}

void OwnedState::add_views(int unit, std::size_t part, std::vector<ShardView>& views) const {
  const auto& [trainable, layout] = table_.units[unit].parts[part];
  const at::Tensor exact = trainable ? master(unit, part) : weights(unit, part);
  for (const Segment& segment : layout.segments) {
    const OwnedRange owned = owned_range(layout, segment, rank_);
    if (owned.numel == 0) continue;
    ShardView view{.parameter = segment.spec.name,
                   .shape = stored_shape(segment.spec),
                   .begin = owned.parameter_begin,
                   .numel = owned.numel,
                   .trainable = trainable,
                   .weight = exact.narrow(0, owned.shard_begin, owned.numel),
                   .in_adapter = segment.spec.in_adapter};
    view.device = flat_.device;
    if (!layout.encoding.is_plain()) {
      view.format = layout.encoding.format;
      view.encoded_ranges = encoded_ranges(segment.spec);
      view.decoded_shape = segment.spec.shape;
    }
    if (trainable) {
      view.state_begin = part_begin(unit, part) + owned.shard_begin;
      view.optimizer = optimizer_state(view.state_begin, owned.numel);
      view.optimizer_on_host = flat_.is_on_host;
      view.weight_on_host = flat_.is_on_host && !is_master(unit, part);
    }
    views.push_back(std::move(view));
  }
}

std::vector<ShardView> OwnedState::shard_views() const {
  std::vector<ShardView> views;
  for (int u = 0; u < static_cast<int>(table_.units.size()); ++u) {
    for (std::size_t p = 0; p < table_.units[u].parts.size(); ++p) add_views(u, p, views);
  }
  return views;
}

}  // namespace packtrain

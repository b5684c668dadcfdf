#include "parallel/sharding/owned_state.h"

#include <ATen/ops/zeros.h>

#include <array>
#include <cstddef>
#include <utility>

#include "parallel/sharding/arena.h"

namespace packtrain {

OwnedState::OwnedState(const UnitTable& table, at::Device device, Communicator& gather,
                       const ShardingOptions& options)
    : table_(table), optimizer_state_(options.optimizer_state), rank_(gather.rank()) {
  place_units();
  const auto float32 = at::TensorOptions().dtype(at::kFloat).device(device);
  const bool master_is_weight = options.compute == at::kFloat;
  const std::array<ArenaPart, 2> owned = {
      {{trainable_numel_, options.compute}, {frozen_numel_, options.compute}}};
  const Arena arena = allocate_arena(gather, device, owned);
  communication_bytes_ = arena.num_bytes;
  flat_.weight = arena.tensors[0];
  frozen_ = arena.tensors[1];
  flat_.master = master_is_weight ? flat_.weight : at::zeros({trainable_numel_}, float32);
  for (const OptimizerStateSpec& spec : optimizer_state_) {
    flat_.optimizer.push_back(
        {spec.name, at::zeros({state_values(spec, trainable_numel_)}, float32.dtype(spec.dtype))});
  }
}

void OwnedState::place_units() {
  std::int64_t first_element = 0;  // of the unit, in the whole model
  for (int u = 0; u < static_cast<int>(table_.units.size()); ++u) {
    const Unit& unit = table_.units[u];
    trainable_begin_.push_back(trainable_numel_);
    frozen_begin_.push_back(frozen_numel_);
    if (!unit.trainable.empty()) {
      for (const GroupRange& run : group_ranges(unit.trainable, rank_)) {
        const std::int64_t in_unit = rank_ * unit.trainable.shard_numel + run.begin;
        optimizer_ranges_.push_back(
            {u, trainable_numel_ + run.begin, run.numel, run.group, first_element + in_unit});
      }
      first_element += numel_without_padding(unit.trainable);
    }
    trainable_numel_ += unit.trainable.shard_numel;
    frozen_numel_ += unit.frozen.shard_numel;
  }
}

at::Tensor OwnedState::weights(int unit, bool trainable) const {
  const Unit& u = table_.units[unit];
  return trainable ? flat_.weight.narrow(0, trainable_begin_[unit], u.trainable.shard_numel)
                   : frozen_.narrow(0, frozen_begin_[unit], u.frozen.shard_numel);
}

std::vector<OptimizerTensor> OwnedState::optimizer_part(std::int64_t begin,
                                                        std::int64_t numel) const {
  std::vector<OptimizerTensor> part;
  for (std::size_t i = 0; i < flat_.optimizer.size(); ++i) {
    const OptimizerStateSpec& spec = optimizer_state_[i];
    part.push_back({spec.name, flat_.optimizer[i].values.narrow(0, state_values(spec, begin),
                                                                state_values(spec, numel))});
  }
  return part;
}

std::vector<at::Tensor> OwnedState::of_unit(int unit) const {
  const std::int64_t begin = trainable_begin_[unit];
  const std::int64_t numel = table_.units[unit].trainable.shard_numel;
  std::vector<at::Tensor> all = {flat_.master.narrow(0, begin, numel)};
  for (const OptimizerTensor& part : optimizer_part(begin, numel)) all.push_back(part.values);
  if (!flat_.weight.is_same(flat_.master)) all.push_back(weights(unit, true));
  all.push_back(weights(unit, false));
  return all;
}

std::vector<ShardView> OwnedState::shard_views() const {
  std::vector<ShardView> views;
  const auto add = [&](const FlatLayout& layout, bool trainable, std::int64_t base) {
    for (const Segment& segment : layout.segments) {
      const OwnedRange owned = owned_range(layout, segment, rank_);
      if (owned.numel == 0) continue;
      ShardView view{segment.spec.name,
                     segment.spec.shape,
                     owned.parameter_begin,
                     owned.numel,
                     trainable,
                     {},
                     {}};
      const std::int64_t begin = base + owned.shard_begin;
      view.weight = (trainable ? flat_.master : frozen_).narrow(0, begin, owned.numel);
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

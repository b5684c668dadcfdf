#include "parallel/sharding/replicated_state.h"

#include <algorithm>
#include <utility>

namespace packtrain {
namespace {

bool keeps_its_slot(const SlotTable& slots, int unit) {
  const auto& slot_of_unit = slots.weight_slot_of_unit;
  return slots.gathers() &&
         std::ranges::count(slot_of_unit, slot_of_unit[static_cast<std::size_t>(unit)]) == 1;
}

}  // namespace

std::vector<ReplicatedState> replicated_state(const ShardedStorage& storage, const UnitTable& table,
                                              const SlotTable& slots) {
  std::vector<ReplicatedState> all;
  for (int unit = 0; slots.has_replicas && unit < slots.num_units; ++unit) {
    all.push_back({"the state of " + table.units[unit].name, true, storage.owned().of_unit(unit)});
  }
  for (int unit = 0; unit < slots.num_units; ++unit) {
    if (!keeps_its_slot(slots, unit)) continue;
    const Unit& of = table.units[static_cast<std::size_t>(unit)];
    std::vector<at::Tensor> gathered;
    for (std::size_t part = 0; part < of.parts.size(); ++part) {
      gathered.push_back(storage.gathered_weights(unit, part));
    }
    all.push_back({"the weights of " + of.name + ", as gathered", false, std::move(gathered)});
  }
  return all;
}

}  // namespace packtrain

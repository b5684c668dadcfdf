#include "parallel/sharding/replicated_state.h"

#include <algorithm>

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
    all.push_back({"the weights of " + table.units[unit].name + ", as gathered",
                   false,
                   {storage.gathered_weights(unit, true), storage.gathered_weights(unit, false)}});
  }
  return all;
}

}  // namespace packtrain

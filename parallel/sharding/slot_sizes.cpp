#include "parallel/sharding/slot_sizes.h"

#include <algorithm>
#include <utility>

namespace packtrain {
namespace {

bool same_layout(const UnitPart& a, const UnitPart& b) {
  return std::ranges::equal(a.layout.segments, b.layout.segments,
                            [](const Segment& x, const Segment& y) {
                              return x.offset == y.offset && x.numel == y.numel;
                            });
}

bool same_gradient(const Unit& a, const Unit& b) {
  return std::ranges::equal(a.trainable_parts(), b.trainable_parts(), same_layout);
}

}  // namespace

SlotSizes slot_sizes(const UnitTable& table, const SlotTable& slots) {
  SlotSizes sizes{std::vector<std::int64_t>(slots.num_weight_slots, 0),
                  std::vector<std::int64_t>(slots.num_grad_slots, 0),
                  std::vector<bool>(slots.num_grad_slots, false)};
  std::vector<const Unit*> grad_user(slots.num_grad_slots, nullptr);
  for (std::size_t u = 0; u < table.units.size(); ++u) {
    const Unit& unit = table.units[u];
    std::int64_t& bytes = sizes.weight_bytes[slots.weight_slot_of_unit[u]];
    bytes = std::max(bytes, unit.gathered_bytes());
    sizes.largest_shard = std::max(sizes.largest_shard, unit.trainable_shard_numel());
    for (const UnitPart& part : unit.parts) {
      if (!part.layout.gathers_codes()) continue;
      sizes.largest_codes = std::max(sizes.largest_codes, part.layout.shard_numel);
    }
    if (unit.trainable_parts().empty()) continue;
    const int own = slots.grad_slot_of_unit[u];
    const int end = own >= 0 ? own + 1 : slots.num_grad_slots;
    for (int slot = own >= 0 ? own : slots.first_rotating_grad_slot(); slot < end; ++slot) {
      const Unit* other = std::exchange(grad_user[slot], &unit);
      if (other != nullptr && !same_gradient(*other, unit)) {
        sizes.is_mixed[slot] = true;
      }
      sizes.gradients[slot] = std::max(sizes.gradients[slot], unit.trainable_numel());
    }
  }
  return sizes;
}

}  // namespace packtrain

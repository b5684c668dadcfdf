// The size of each slot: that of the largest unit that uses it.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/sharding/schedule.h"

namespace packtrain {

struct SlotSizes {
  std::vector<std::int64_t> weight_bytes;  // [weight slots]
  std::vector<std::int64_t> gradients;     // [gradient slots] elements
  // [gradient slots] true when units of different layouts share it, so that gaps must be cleared.
  std::vector<bool> is_mixed;
  std::int64_t largest_shard = 0;  // elements of a unit's trainable parts
  std::int64_t largest_codes = 0;  // of a part that is gathered as codes: bytes of one rank
};

SlotSizes slot_sizes(const UnitTable& table, const SlotTable& slots);

}  // namespace packtrain

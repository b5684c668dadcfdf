// The size of a slot of StateStream.
#pragma once

#include <algorithm>
#include <cstdint>

#include "parallel/sharding/state_stream.h"

namespace packtrain {

// Small states are divided too, so that their slots are a fraction of them.
inline constexpr std::int64_t kSlotsOfState = 16;

// Device bytes of a slot for a rank's `state_bytes` in host memory.
inline std::int64_t state_slot_bytes(std::int64_t state_bytes) {
  return std::min(kStateSlotBytes, state_bytes / kSlotsOfState + 1);
}

}  // namespace packtrain

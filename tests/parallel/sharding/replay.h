// Replays a schedule without a device. Vector clocks (Lamport 1978, Fidge 1988) find which accesses
// of slots are ordered by streams and events, under any timing.
#pragma once

#include <string>
#include <vector>

#include "parallel/sharding/schedule.h"

namespace packtrain::test {

// Returns a text for each fault found, and none when the schedule is right. In a right schedule all
// conflicting accesses of weight slots, gradient slots and shards are ordered. Every block computes
// with its own unit's weights. Every gradient is written first and added to afterwards. Every
// unit's gradient is reduced once a micro-batch after all of its writers. Local sums are reduced
// once a step, and gradients in place never.
std::vector<std::string> find_faults(const Schedule& schedule, const UnitTable& table,
                                     const SlotTable& slots, const ScheduleOptions& options);

}  // namespace packtrain::test

// Replays a schedule without a device: which accesses of which slots are ordered by streams and
// events, whatever the timing (vector clocks; Lamport 1978, Fidge 1988).
#pragma once

#include <string>
#include <vector>

#include "parallel/sharding/schedule.h"

namespace packtrain::testing {

// Every fault found, in words; empty when the schedule is right: all conflicting accesses of weight
// slots, gradient slots and shards are ordered, every block computes with its own unit's weights,
// every gradient is written first and added to afterwards, and every unit's is reduced once a
// micro-batch after all of its writers (never where gradients are in place).
std::vector<std::string> find_faults(const Schedule& schedule, const UnitTable& table,
                                     const SlotTable& slots, const ScheduleOptions& options);

}  // namespace packtrain::testing

// How long a run is, and after which of its steps something is due that is done every so often.
#pragma once

#include <cstdint>
#include <string>

#include "framework/config/config.h"
#include "samplers/planner.h"

namespace packtrain {

// "100 steps = 7.7 epochs of 13 steps (run.max_steps; run.num_epochs: 1 does not count)"
std::string describe_length(const RunSection& run, const Planner& planner);

// Whether it is due after `done` steps of `total_steps`. A share of the run is due `1 / share`
// times, evenly: after the first whole step at or behind each share.
bool is_due(const Interval& interval, std::int64_t done, std::int64_t total_steps,
            const Planner& planner);

// The first number of steps above `done` after which it is due; `total_steps` where none is before.
std::int64_t next_due(const Interval& interval, std::int64_t done, std::int64_t total_steps,
                      const Planner& planner);

// "after steps 13, 26, 39, ..., 130": those of a run, with its last one where `at_end`.
std::string describe_due(const Interval& interval, bool at_end, std::int64_t total_steps,
                         const Planner& planner);

}  // namespace packtrain

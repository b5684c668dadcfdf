// The length of a run, and the steps after which a repeated action is due.
#pragma once

#include <cstdint>
#include <string>

#include "framework/config/config.h"
#include "samplers/planner.h"

namespace packtrain {

// "100 steps = 7.7 epochs of 13 steps (run.max_steps; run.num_epochs: 1 does not count)"
std::string describe_length(const RunSection& run, const Planner& planner);

// True when the action is due after `done` steps of `total_steps`. An interval that is a share of
// the run is due `1 / share` times, evenly: after the first whole step at or after each share.
bool is_due(const Interval& interval, std::int64_t done, std::int64_t total_steps,
            const Planner& planner);

// The first number of steps above `done` after which it is due, else `total_steps`.
std::int64_t next_due(const Interval& interval, std::int64_t done, std::int64_t total_steps,
                      const Planner& planner);

// "after steps 13, 26, 39, ..., 130": the due steps of a run, with its last step if `at_end`.
std::string describe_due(const Interval& interval, bool at_end, std::int64_t total_steps,
                         const Planner& planner);

}  // namespace packtrain

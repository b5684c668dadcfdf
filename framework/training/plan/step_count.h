// How many steps a run has, found by all ranks together.
#pragma once

#include <cstdint>

#include "framework/config/config.h"
#include "parallel/communicator.h"
#include "samplers/planner.h"

namespace packtrain {

// Planner::num_run_steps(run). Where epochs differ in steps each rank counts a share of them, and
// tells the others; `planner` knows all counts afterwards. Collective. Throws, the same on every
// rank, what counting threw on the first rank where it did.
std::int64_t count_run_steps(const Planner& planner, const RunSection& run, Communicator& control);

}  // namespace packtrain

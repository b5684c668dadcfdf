// Number of steps of a run, computed by all ranks together.
#pragma once

#include <cstdint>

#include "framework/config/config.h"
#include "parallel/communicators/communicator.h"
#include "samplers/planner.h"

namespace packtrain {

// Planner::num_run_steps(run). When epochs differ in steps, each rank counts a part of them and
// shares the counts; `planner` then has all of them. Collective. Every rank throws the error of the
// first rank whose counting failed.
std::int64_t count_run_steps(const Planner& planner, const RunSection& run, Communicator& control);

}  // namespace packtrain

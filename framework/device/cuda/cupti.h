// CUPTI's activity records: kernels, copies and calls with their times. For the timeline and for
// benchmarks/kernel_times; stands on CUPTI alone.
#pragma once

#include <cupti.h>

#include <functional>
#include <span>
#include <string>

namespace packtrain {

using UseActivity = std::function<void(const CUpti_Activity&)>;

// From now on every activity of `kinds` is given to `use`, one at a time, on threads of CUPTI's.
// Returns why not, or nothing. One use at a time in a process; another profiler in it (a second
// CUPTI subscriber, Nsight) makes it fail.
std::string start_cupti(std::span<const CUpti_ActivityKind> kinds, UseActivity use);

// Gives what is left, of work that is over, to `use`, and ends. Returns what went wrong, or
// nothing.
std::string stop_cupti(std::span<const CUpti_ActivityKind> kinds);

}  // namespace packtrain

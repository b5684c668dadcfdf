// CUPTI's activity records: kernels, copies and calls with times, for the timeline and for
// benchmarks/kernel_times. Depends only on CUPTI.
#pragma once

#include <cupti.h>

#include <functional>
#include <span>
#include <string>

namespace packtrain {

using UseActivity = std::function<void(const CUpti_Activity&)>;

// From now on CUPTI's threads pass each activity of `kinds` to `use`, one at a time. Returns an
// error text, or "". Only one recording can be active in a process. Another profiler in the process
// (a second CUPTI subscriber, Nsight) makes it fail.
std::string start_cupti(std::span<const CUpti_ActivityKind> kinds, UseActivity use);

// Passes the remaining activities of completed work to `use` and stops. Returns an error text, or
// "".
std::string stop_cupti(std::span<const CUpti_ActivityKind> kinds);

}  // namespace packtrain

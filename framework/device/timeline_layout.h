// From what was recorded to boxes on rows.
#pragma once

#include <span>
#include <vector>

#include "framework/device/activity_recorder.h"
#include "framework/device/range_recorder.h"
#include "framework/device/timeline.h"

namespace packtrain {

// Threads' ranges and long calls on the threads' rows. On a stream's row its activities, and around
// them the ranges they were launched in, from their first activity to their last; where the stream
// stood still for an event, "wait for gather" and the like, from the end of the work before to the
// end of what was awaited. Activities that overlap on one stream: a little (the next kernel's
// launch under the last one's tail) is cut off the later one; much (copies by several engines)
// puts it on a row of its own, "gather 2". Sorted by row, then so that outer boxes come first.
std::vector<TimelineSpan> lay_out(std::span<const RecordedRange> ranges, DeviceActivities device);

}  // namespace packtrain

// Converts recorded ranges and activities to boxes on rows.
#pragma once

#include <span>
#include <vector>

#include "framework/device/activity_recorder.h"
#include "framework/device/range_recorder.h"
#include "framework/device/timeline.h"

namespace packtrain {

// Threads' rows have the threads' ranges and long calls. A stream's row has its activities and,
// around them, the ranges that launched them, from first to last activity. A wait of the stream
// ("wait for gather") is a box from the end of the previous work to the end of the awaited work.
// Activities of a stream can overlap. A short overlap, such as a launch under the previous kernel's
// end, is cut off the later one. A long overlap, such as copies by several engines, moves the
// activity to another row, "gather 2". The result is sorted by row, with outer boxes first.
std::vector<TimelineSpan> lay_out(std::span<const RecordedRange> ranges, DeviceActivities device);

}  // namespace packtrain

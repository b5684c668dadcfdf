// A timeline of this process's threads and its device's streams, for run.trace_steps. While none is
// recorded, a range only reads a flag.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/device/activity_recorder.h"

namespace packtrain {

// A box on a row. Two boxes of a row are either nested or disjoint.
struct TimelineSpan {
  std::string row;  // "host", "data"; the streams: "compute", "gather", "reduce", "copy"
  std::string name;
  std::string category;       // "range", "wait", "kernel", "copy", "fill", "call"
  std::int64_t begin_ns = 0;  // wall clock, since 1970
  std::int64_t end_ns = 0;
  TimelineDetails details;
};

// Records from the constructor on. Only one can exist in a process at a time.
class TimelineRecording {
 public:
  // `device`: result of Device::record_activities(), can be null. `row`: of the calling thread.
  TimelineRecording(std::unique_ptr<ActivityRecorder> device, std::string row);
  ~TimelineRecording();
  TimelineRecording(const TimelineRecording&) = delete;
  TimelineRecording& operator=(const TimelineRecording&) = delete;

  // Ends the recording. Waits for the device. Ranges that have not ended are left out.
  std::vector<TimelineSpan> finish();
};

}  // namespace packtrain

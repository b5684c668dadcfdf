// Who did what, and when: a timeline of this process's threads and of its device's streams, for
// run.trace_steps. While none is recorded, a range costs a look at a flag.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/device/activity_recorder.h"

namespace packtrain {

// A box on a row. Two boxes of a row either lie in each other or do not touch.
struct TimelineSpan {
  std::string row;  // "host", "data"; the streams: "compute", "gather", "reduce", "copy"
  std::string name;
  std::string category;       // "range", "wait", "kernel", "copy", "fill", "call"
  std::int64_t begin_ns = 0;  // wall clock, since 1970
  std::int64_t end_ns = 0;
  TimelineDetails details;
};

// Records from its making on; one at a time in a process.
class TimelineRecording {
 public:
  // `device`: of Device::record_activities(), or null. `row`: of the calling thread.
  TimelineRecording(std::unique_ptr<ActivityRecorder> device, std::string row);
  ~TimelineRecording();
  TimelineRecording(const TimelineRecording&) = delete;
  TimelineRecording& operator=(const TimelineRecording&) = delete;

  // Ends it; waits for the device. Ranges that are not over yet are left out.
  std::vector<TimelineSpan> finish();
};

}  // namespace packtrain

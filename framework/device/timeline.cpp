#include "framework/device/timeline.h"

#include <utility>

#include "framework/device/range_recorder.h"
#include "framework/device/timeline_layout.h"

namespace packtrain {

TimelineRecording::TimelineRecording(std::unique_ptr<ActivityRecorder> device, std::string row) {
  set_thread_row(std::move(row));
  start_ranges(std::move(device));
}

TimelineRecording::~TimelineRecording() {
  stop_ranges();
}

std::vector<TimelineSpan> TimelineRecording::finish() {
  const Recorded recorded = stop_ranges();
  if (recorded.device == nullptr) return lay_out(recorded.ranges, {});
  return lay_out(recorded.ranges, recorded.device->finish());
}

}  // namespace packtrain

// Named ranges of the calling thread for NVTX and for the timeline (timeline.h). Nsight Systems
// shows them with the kernels launched inside. Without a profiler they cost almost nothing.
#pragma once

#include <string>

#include "framework/device/range_recorder.h"

namespace packtrain {

class TraceRange {
 public:
  explicit TraceRange(const std::string& name);
  ~TraceRange();
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

 private:
  RangeScope scope_;
};

}  // namespace packtrain

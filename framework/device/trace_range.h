// Named ranges of the calling thread, for profilers (NVTX; Nsight Systems shows them over the
// kernels launched inside) and for our own timeline (timeline.h). Next to nothing happens without.
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

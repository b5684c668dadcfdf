// Named ranges for profilers (NVTX; Nsight Systems shows them over the kernels launched inside).
// Nothing happens without a profiler, or in a build without CUDA.
#pragma once

namespace packtrain {

class TraceRange {
 public:
  explicit TraceRange(const char* name);
  ~TraceRange();
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
};

}  // namespace packtrain

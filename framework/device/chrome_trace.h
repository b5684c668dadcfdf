// Writes a timeline in the Chrome trace event format (JSON object form), which ui.perfetto.dev and
// chrome://tracing open. Source: "Trace Event Format",
// docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "framework/device/timeline.h"

namespace packtrain {

struct TraceProcess {
  int rank = 0;      // process number in the trace, so that files of several ranks can be merged
  std::string name;  // "rank 0 on node7, NVIDIA H200"
  std::int64_t origin_ns = 0;  // wall clock of time 0, the same for all ranks
};

// Times are in microseconds after the origin. Invalid UTF-8 in names is replaced.
std::string chrome_trace(std::span<const TimelineSpan> spans, const TraceProcess& process);

}  // namespace packtrain

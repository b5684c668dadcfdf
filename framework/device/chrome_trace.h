// A timeline as text in the Chrome trace event format (JSON object form), which ui.perfetto.dev and
// chrome://tracing open. The format: "Trace Event Format", docs.google.com/document/d/
// 1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "framework/device/timeline.h"

namespace packtrain {

struct TraceProcess {
  int rank = 0;                // the process number, so that files of several ranks fit together
  std::string name;            // "rank 0 on node7, NVIDIA H200"
  std::int64_t origin_ns = 0;  // wall clock of time 0, the same for all ranks
};

// Times are microseconds after the origin. Bytes of names that are not UTF-8 are replaced.
std::string chrome_trace(std::span<const TimelineSpan> spans, const TraceProcess& process);

}  // namespace packtrain

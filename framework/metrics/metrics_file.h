// metrics.jsonl: one line a step and an evaluation, through all resumes of a run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "framework/support/file.h"

namespace packtrain {

class MetricsFile {
 public:
  // Opens `path` for appending. Lines of steps after `first_step`, left by a process that got
  // further than its last checkpoint, are cut first, as is a line torn by a crash: no step stands
  // twice. Throws Error(kInternal) when the file cannot be read or written.
  MetricsFile(const std::string& path, std::int64_t first_step);

  // One call, one write: readers following the file see whole lines.
  void append(std::string_view line);

 private:
  OutputFile file_;
};

}  // namespace packtrain

// Files of JSON lines that have a `step`, through all resumes of a run: metrics.jsonl (a line a
// step and an evaluation), the example ledgers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "framework/support/file.h"

namespace packtrain {

// Cuts the lines of steps after `last_step`, and one torn by a crash, from the file, if there is
// one. Throws Error(kInternal) when it cannot be read or written.
void truncate_after_step(const std::string& path, std::int64_t last_step);

// Cuts the evaluation of the weights after `step` steps, which is to be made again. Likewise.
void cut_evaluation_of(const std::string& path, std::int64_t step);

class MetricsFile {
 public:
  // Opens `path` for appending. Lines of steps after `first_step`, left by a process that got
  // further than its last checkpoint, are cut first, as is a line torn by a crash: no step stands
  // twice. Throws Error(kInternal) when the file cannot be read or written.
  MetricsFile(const std::string& path, std::int64_t first_step);

  // One call, one write: readers following the file see whole lines. `line` may be several; the
  // last newline is added.
  void append(std::string_view line);

 private:
  OutputFile file_;
};

}  // namespace packtrain

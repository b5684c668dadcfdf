// Files of JSON lines with a `step`, which continue when a run resumes: metrics.jsonl (a line for
// each step and evaluation) and the example ledgers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "framework/core/file.h"

namespace packtrain {

// Removes lines of steps after `last_step`, and an incomplete last line, from the file if it
// exists. Throws Error(kInternal) when it cannot be read or written.
void truncate_after_step(const std::string& path, std::int64_t last_step);

// Removes the evaluation of the weights after `step` steps, which will run again. Throws likewise.
void cut_evaluation_of(const std::string& path, std::int64_t step);

class MetricsFile {
 public:
  // Opens `path` for appending. First removes lines of steps after `first_step`, which a process
  // wrote after its last checkpoint, and an incomplete line of a crash. So no step occurs twice.
  // Throws Error(kInternal) when the file cannot be read or written.
  MetricsFile(const std::string& path, std::int64_t first_step);

  // Each call is one write, so that readers of the file see complete lines. `line` can be several
  // lines. The last newline is added.
  void append(std::string_view line);

 private:
  OutputFile file_;
};

}  // namespace packtrain

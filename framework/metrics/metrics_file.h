// Files of JSON lines with a `step`, which continue when a run resumes: metrics.jsonl (a line for
// each step and evaluation) and the example ledgers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/file.h"

namespace packtrain {

// Removes lines of steps after `last_step`, and an incomplete last line, from the file if it
// exists. Reads it from its end, as far as such lines can be. Throws Error(kConfig) when it cannot
// be read or written.
void truncate_after_step(const std::string& path, std::int64_t last_step);

// The same. It also removes the evaluation of the weights after `step` steps, which will run again.
void cut_evaluation_of(const std::string& path, std::int64_t step);

// A write that fails does not end a run. Lines wait in memory, and the next append() tries again.
class MetricsFile {
 public:
  // Opens `path` for appending. First removes lines of steps after `first_step`, which a process
  // wrote after its last checkpoint, and an incomplete line of a crash. So no step occurs twice.
  // Throws Error(kConfig) when the file cannot be read or written.
  MetricsFile(const std::string& path, std::int64_t first_step);
  // Tries once more to write what waits. Warns with the number of lines that are lost.
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // Each call is one write, so that readers of the file see complete lines. `line` can be several
  // lines. The last newline is added. The first write that fails is a warning. Its part in the file
  // is removed, and the line waits. Of more than 16 MiB the oldest lines are lost.
  void append(std::string_view line);

  // Lines that are not in the file: those that wait, and those that are lost.
  std::int64_t num_unwritten_lines() const { return num_lost_ + num_waiting_; }

 private:
  void write_waiting();
  void remove_incomplete_line();
  void drop_front();
  void lose_oldest();

  std::string path_;
  OutputFile file_;
  std::deque<std::string> waiting_;  // one entry for each append()
  std::size_t num_waiting_bytes_ = 0;
  std::int64_t num_waiting_ = 0;  // lines
  std::int64_t num_lost_ = 0;
  bool has_failed_ = false;                    // since the last write
  std::optional<std::size_t> complete_bytes_;  // set while a write may have left half a line
};

}  // namespace packtrain

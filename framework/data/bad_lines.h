// How lines that cannot be used are handled.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "framework/core/file.h"
#include "framework/data/text_lines.h"

namespace packtrain {

// The quarantine file of a store. It has one JSON object for each bad line with file, line, byte,
// num_bytes, fault and text. `byte` is where the line begins. `text` is its first 1,000 bytes, with
// invalid UTF-8 replaced.
inline constexpr const char* kBadLinesName = "bad-lines.jsonl";

struct BadLinePolicy {
  bool skip = false;            // false: the first bad line is an error
  double max_fraction = 0.001;  // maximum fraction of lines to skip; blank lines do not count
};

class BadLines {
 public:
  // `quarantine` is written when the first line is skipped.
  BadLines(const BadLinePolicy& policy, std::string quarantine);

  void count_line() { ++num_lines_; }
  // Skips a line that was counted. Throws Error(kData) with file, line and byte when the policy
  // does not skip. It also throws as soon as the bad lines exceed the fraction of the lines so far
  // by 1,000.
  void skip(const std::string& file, const TextLine& line, const std::string& fault);
  // Call after the last line. Throws Error(kData) when the skipped lines exceed the fraction.
  void finish();

  std::int64_t num_bad() const { return num_bad_; }

 private:
  void check(double most) const;
  void write(const std::string& file, const TextLine& line, const std::string& fault);

  BadLinePolicy policy_;
  std::string path_;
  std::unique_ptr<OutputFile> quarantine_;
  std::int64_t num_lines_ = 0;
  std::int64_t num_bad_ = 0;
  std::string first_;  // "file:line: fault"
};

}  // namespace packtrain

// What becomes of lines that cannot be used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "framework/data/text_lines.h"
#include "framework/support/file.h"

namespace packtrain {

// The quarantine of a store, a file of its folder: one JSON object a bad line, with file, line,
// byte (of its begin), num_bytes, fault and text (its first 1,000 bytes, what is no UTF-8
// replaced).
inline constexpr const char* kBadLinesName = "bad-lines.jsonl";

struct BadLinePolicy {
  bool skip = false;            // else the first bad line is an error
  double max_fraction = 0.001;  // of all lines, blank ones aside, that may be skipped
};

class BadLines {
 public:
  // `quarantine` is written when the first line is skipped.
  BadLines(const BadLinePolicy& policy, std::string quarantine);

  void count_line() { ++num_lines_; }
  // Skips a line that was counted. Throws Error(kData) with file, line and byte under the policy to
  // stop, and as soon as a thousand more are bad than the share of those so far.
  void skip(const std::string& file, const TextLine& line, const std::string& fault);
  // After the last line: throws Error(kData) when more than the share was skipped.
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

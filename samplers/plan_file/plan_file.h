// A plan file: the optimizer steps of one epoch or of several, written by any program
// (docs/strategies.md). It is UTF-8 text, one JSON object a line:
// - The first line is the header: {"packtrain_plan": 1, "num_examples": 6, "ranks": 2}.
// - {"ranks": [[[0, 3], [1]], [[2], [4, 5]]]} is a step of a whole plan. Each rank has a list of
//   micro-batches, and each of these has its examples in order.
// - A step of a file without `ranks` in its header is {"examples": [0, 3, 1, 2, 4, 5]}.
// - {"epoch": 1} begins the second epoch. It is not needed for the first one.
// Examples are numbered from 0, as in data.train.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/mapped_file.h"
#include "framework/data/example_counts.h"

namespace packtrain {

struct PlanFileHeader {
  std::int64_t num_examples = 0;     // of the data that the plan is for
  std::optional<int> num_ranks;      // nothing: the file has steps without ranks
  std::string lengths;               // lengths_digest() of these data, or ""
  bool leaves_examples_out = false;  // examples of the data may be missing
};

struct PlanFileStep {
  std::int64_t line = 0;  // in the file, from 1
  // [rank][micro-batch][example]. A step without ranks is one micro-batch of one rank.
  std::vector<std::vector<std::vector<std::int64_t>>> ranks;
};

// Thread-safe. The file is mapped; 16 bytes a step are in memory.
class PlanFile {
 public:
  // Reads the header and finds the steps. Throws Error(kData) with path and line.
  static std::shared_ptr<const PlanFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  const PlanFileHeader& header() const { return header_; }
  bool has_ranks() const { return header_.num_ranks.has_value(); }
  // A run of more epochs begins again with the first one of the file.
  std::int64_t num_epochs() const { return std::ssize(epoch_begins_); }
  std::int64_t num_steps(std::int64_t epoch) const;
  // Parses the line of a step. Throws Error(kData) when it is no step, a number is no example, or
  // ranks have different numbers of micro-batches.
  PlanFileStep step(std::int64_t epoch, std::int64_t step_of_epoch) const;
  const std::string& digest() const { return digest_; }  // xxh3-128 of the whole file

  [[noreturn]] void fail(std::int64_t line, const std::string& what, std::string advice) const;

 private:
  struct Line {
    std::size_t offset = 0;
    std::int64_t number = 0;
  };

  explicit PlanFile(std::string path) : path_(std::move(path)) {}
  std::string_view text_at(const Line& line) const;
  void find_lines();

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::string_view text_;
  PlanFileHeader header_;
  std::string digest_;
  std::vector<Line> steps_;                // of all epochs
  std::vector<std::size_t> epoch_begins_;  // [epochs] first of its steps in `steps_`
};

// BLAKE2b of 16 bytes (hex) over the lengths as int32, little-endian. Python's hashlib has it.
std::string lengths_digest(const ExampleCounts& lengths);

// Lines of a plan file, each with its end.
std::string plan_file_header_line(const PlanFileHeader& header);
std::string plan_file_epoch_line(std::int64_t epoch);
std::string plan_file_step_line(const PlanFileStep& step, bool has_ranks);

}  // namespace packtrain

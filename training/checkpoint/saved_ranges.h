// Maps elements of a parameter to the files of a checkpoint. A reader decides with it which files
// to open, without opening any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace packtrain {

struct Manifest;

// A part of a parameter's flattened elements, [begin, end).
struct SavedPart {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::size_t file = 0;          // in Manifest::files
  std::int64_t saved_begin = 0;  // begin of the saved range that contains the part
};

class SavedRanges {
 public:
  SavedRanges() = default;
  // Adds the files whose ranges the manifest has. Call add() for the others.
  explicit SavedRanges(const Manifest& manifest);

  void add(const std::string& parameter, std::int64_t begin, std::int64_t end, std::size_t file);
  // The parts that contain the elements [begin, end), in order. Stops at the first element that no
  // file holds.
  std::vector<SavedPart> parts(const std::string& parameter, std::int64_t begin,
                               std::int64_t end) const;

 private:
  struct Range {
    std::int64_t end = 0;
    std::size_t file = 0;
  };
  std::map<std::string, std::map<std::int64_t, Range>> ranges_;  // by parameter, then by begin
};

}  // namespace packtrain

// Which file of a checkpoint holds which elements of a parameter: what a reader opens is decided
// here, without a file.
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
  std::int64_t saved_begin = 0;  // of the saved range that the part lies in
};

class SavedRanges {
 public:
  SavedRanges() = default;
  // Of all files whose ranges the manifest holds; of others, add() them.
  explicit SavedRanges(const Manifest& manifest);

  void add(const std::string& parameter, std::int64_t begin, std::int64_t end, std::size_t file);
  // Where the elements [begin, end) lie, in their order. A part that no file holds is left out,
  // with all that comes after it.
  std::vector<SavedPart> parts(const std::string& parameter, std::int64_t begin,
                               std::int64_t end) const;

 private:
  struct Range {
    std::int64_t end = 0;
    std::size_t file = 0;
  };
  std::map<std::string, std::map<std::int64_t, Range>> ranges_;  // by parameter, by begin
};

}  // namespace packtrain

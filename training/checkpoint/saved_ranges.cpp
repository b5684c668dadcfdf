#include "training/checkpoint/saved_ranges.h"

#include <algorithm>
#include <iterator>

#include "training/checkpoint/manifest.h"

namespace packtrain {

SavedRanges::SavedRanges(const Manifest& manifest) {
  std::vector<const std::string*> names;
  names.reserve(manifest.parameters.size());
  for (const auto& [name, shape] : manifest.parameters) names.push_back(&name);
  for (std::size_t file = 0; file < manifest.files.size(); ++file) {
    for (const SavedRange& range : manifest.files[file].ranges) {
      add(*names.at(range.parameter), range.begin, range.begin + range.numel, file);
    }
  }
}

// Called once for each tensor, so also for the moments of a range, which are in the same file. Of
// two ranges with the same begin the longer one is kept.
void SavedRanges::add(const std::string& parameter, std::int64_t begin, std::int64_t end,
                      std::size_t file) {
  const auto [range, is_new] = ranges_[parameter].try_emplace(begin, Range{end, file});
  if (!is_new && range->second.end < end) range->second = {end, file};
}

std::vector<SavedPart> SavedRanges::parts(const std::string& parameter, std::int64_t begin,
                                          std::int64_t end) const {
  std::vector<SavedPart> parts;
  const auto found = ranges_.find(parameter);
  if (found == ranges_.end()) return parts;
  const auto& ranges = found->second;
  auto range = ranges.upper_bound(begin);
  if (range != ranges.begin()) --range;
  std::int64_t cursor = begin;
  for (; range != ranges.end() && range->first <= cursor && cursor < end; ++range) {
    const std::int64_t stop = std::min(end, range->second.end);
    if (stop <= cursor) continue;
    parts.push_back({cursor, stop, range->second.file, range->first});
    cursor = stop;
  }
  return parts;
}

}  // namespace packtrain

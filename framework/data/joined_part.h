// One store of a joined store, and which of its examples an epoch has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "framework/data/joined_store.h"

namespace packtrain {

// Whole repeats of the store come first, then a part of it. Of a store with groups these are whole
// groups.
struct JoinedPart {
  StorePart given;
  std::int64_t first_example = 0;     // index in the joined store
  std::int64_t num_stored = 0;        // examples of the store
  std::int64_t num_examples = 0;      // of the joined store
  std::vector<std::uint32_t> rest;    // examples of the last repeat when it is not a whole one
  std::vector<std::int16_t> sources;  // [sources of the store] index in the joined store
  // Of a store with groups, else 0 and empty.
  std::int64_t first_group = 0;  // number in the joined store
  std::int64_t num_stored_groups = 0;
  std::int64_t num_groups = 0;                // of the joined store
  std::vector<std::uint32_t> rest_groups;     // groups that `rest` has
  std::vector<std::uint32_t> rest_positions;  // [rest_groups] where each begins in `rest`

  std::int64_t num_whole_repeats() const {
    return num_examples / std::max<std::int64_t>(1, num_stored);
  }
  // The index in the store of an example of the joined store.
  std::int64_t local(std::int64_t example) const {
    const std::int64_t of_part = example - first_example;
    const std::int64_t of_rest = of_part - num_whole_repeats() * num_stored;
    return of_rest < 0 ? of_part % num_stored : rest[static_cast<std::size_t>(of_rest)];
  }
};

// Chooses the examples. Sources are left empty.
JoinedPart make_joined_part(StorePart given, std::int64_t first_example, std::int64_t first_group);

// The part that has the example; it is the store's.
const JoinedPart& part_with_example(const std::vector<JoinedPart>& parts, std::int64_t example);

}  // namespace packtrain

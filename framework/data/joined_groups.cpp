#include "framework/data/joined_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "framework/core/error.h"

namespace packtrain {

void JoinedGroups::check(std::int64_t number, std::int64_t count) const {
  if (number >= 0 && number < count) return;
  throw Error(ErrorCategory::kInternal,
              fmt::format("asked for group or example {} of {} in joined stores", number, count));
}

ExampleGroup JoinedGroups::group(std::int64_t number) const {
  check(number, parts_.back().first_group + parts_.back().num_groups);
  const JoinedPart& part =
      *std::prev(std::ranges::upper_bound(parts_, number, {}, &JoinedPart::first_group));
  const std::int64_t of_part = number - part.first_group;
  const std::int64_t repeat = of_part / part.num_stored_groups;
  const std::int64_t begin = part.first_example + repeat * part.num_stored;
  const ExampleGroups& groups = *part.given.store->groups();
  if (repeat < part.num_whole_repeats()) {
    ExampleGroup group = groups.group(of_part % part.num_stored_groups);
    group.first_example += begin;
    return group;
  }
  const auto place = static_cast<std::size_t>(of_part % part.num_stored_groups);
  ExampleGroup group = groups.group(part.rest_groups[place]);
  group.first_example = begin + part.rest_positions[place];
  return group;
}

std::int64_t JoinedGroups::group_of(std::int64_t example) const {
  check(example, parts_.back().first_example + parts_.back().num_examples);
  const JoinedPart& part = part_with_example(parts_, example);
  const std::int64_t of_part = example - part.first_example;
  const std::int64_t repeat = of_part / part.num_stored;
  const std::int64_t begin = part.first_group + repeat * part.num_stored_groups;
  const std::int64_t of_repeat = of_part % part.num_stored;
  if (repeat < part.num_whole_repeats()) {
    return begin + part.given.store->groups()->group_of(of_repeat);
  }
  const auto after = std::ranges::upper_bound(part.rest_positions, of_repeat);
  return begin + (after - part.rest_positions.begin()) - 1;
}

GroupRole JoinedGroups::role(std::int64_t example) const {
  check(example, parts_.back().first_example + parts_.back().num_examples);
  const JoinedPart& part = part_with_example(parts_, example);
  return part.given.store->groups()->role(part.local(example));
}

}  // namespace packtrain

#include "framework/data/joined_part.h"

#include <iterator>
#include <utility>

#include "framework/data/mixture.h"
#include "framework/data/store_parts.h"

namespace packtrain {
namespace {

void choose_rest_of_groups(std::int64_t num_rest, JoinedPart& part) {
  const ExampleGroups& groups = *part.given.store->groups();
  part.rest_groups = choose_examples(part.num_stored_groups, num_rest);
  for (const std::uint32_t number : part.rest_groups) {
    const ExampleGroup group = groups.group(number);
    part.rest_positions.push_back(static_cast<std::uint32_t>(part.rest.size()));
    for (std::int64_t k = 0; k < group.num_examples; ++k) {
      part.rest.push_back(static_cast<std::uint32_t>(group.first_example + k));
    }
  }
}

}  // namespace

JoinedPart make_joined_part(StorePart given, std::int64_t first_example, std::int64_t first_group) {
  const StoreInfo& info = given.store->info();
  JoinedPart part{.given = {},
                  .first_example = first_example,
                  .num_stored = info.num_examples,
                  .rest = {},
                  .sources = {},
                  .first_group = first_group,
                  .num_stored_groups = info.groups ? info.groups->num_groups : 0,
                  .rest_groups = {},
                  .rest_positions = {}};
  const std::int64_t num_units = num_units_of(*given.store);
  const std::int64_t used = num_used(given);
  part.given = std::move(given);
  const std::int64_t num_whole = num_units == 0 ? 0 : used / num_units;
  const std::int64_t num_rest = used - num_whole * num_units;
  if (part.num_stored_groups > 0) {
    part.num_groups = used;
    if (num_rest > 0) choose_rest_of_groups(num_rest, part);
  } else if (num_rest > 0) {
    part.rest = choose_examples(part.num_stored, num_rest);
  }
  part.num_examples = num_whole * part.num_stored + std::ssize(part.rest);
  return part;
}

const JoinedPart& part_with_example(const std::vector<JoinedPart>& parts, std::int64_t example) {
  // An empty store and its successor begin at the same example. upper_bound finds the successor.
  return *std::prev(std::ranges::upper_bound(parts, example, {}, &JoinedPart::first_example));
}

}  // namespace packtrain

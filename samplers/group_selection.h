// Which groups of a store are trained.
#pragma once

#include <cstdint>
#include <vector>

#include "samplers/group_units.h"
#include "samplers/selection.h"

namespace packtrain {

// The groups that are left out, ascending; `counts` counts them. A group is trained where each of
// its examples has tokens, a label, and at most `max_length` tokens. Throws Error(kData) for a
// longer one under policy error. Reads no length where the bounds of the store show that all are
// trained.
std::vector<ExampleIndex> groups_left_out(const GroupUnits& units, TooLong too_long,
                                          std::int64_t max_length, SelectionCounts& counts);

// Throws Error(kConfig) when a selected group has more rows than a micro-batch may have. Compares
// tokens only of groups that could.
void check_groups_fit(const Selection& selection, std::int64_t max_tokens);

}  // namespace packtrain

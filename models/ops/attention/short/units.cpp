#include "models/ops/attention/short/units.h"

#include <algorithm>

namespace packtrain {
namespace {

constexpr std::int32_t tiles_of(std::int32_t num_rows, std::int32_t rows) {
  return (num_rows + rows - 1) / rows;
}

// True if the sequence of `next` may be added to `unit`.
bool fits(const AttentionUnit& unit, const AttentionUnit& next) {
  return unit.num_queries == unit.num_keys && next.num_queries == next.num_keys &&
         unit.first_query + unit.num_queries == next.first_query &&
         unit.first_key + unit.num_keys == next.first_key &&
         unit.num_keys + next.num_keys <= kUnitKeys;
}

}  // namespace

std::int64_t unit_tiles(const AttentionUnit& unit) {
  const std::int32_t before = unit.num_keys - unit.num_queries;
  std::int64_t work = 0;
  for (std::int32_t key = 0; key < unit.num_keys; key += kUnitKeys) {
    const std::int32_t first_tile = std::max(0, key - before) / kUnitQueries;
    work += tiles_of(unit.num_queries, kUnitQueries) - first_tile;
  }
  return work;
}

AttentionUnits attention_units(std::span<const std::int32_t> first_queries,
                               std::span<const std::int32_t> first_keys, std::int64_t max_keys) {
  AttentionUnits made;
  std::vector<AttentionUnit>& units = made.units;
  for (std::size_t i = 0; i + 1 < first_queries.size(); ++i) {
    const auto sequence = static_cast<std::int32_t>(i);
    const AttentionUnit next = {first_queries[i], first_queries[i + 1] - first_queries[i],
                                first_keys[i],    first_keys[i + 1] - first_keys[i],
                                sequence,         1};
    if (next.num_keys > max_keys) {
      made.long_sequences.push_back(sequence);
    } else if (!units.empty() && fits(units.back(), next)) {
      units.back().num_queries += next.num_queries;
      units.back().num_keys += next.num_keys;
      ++units.back().num_sequences;
    } else if (next.num_keys > 0) {
      units.push_back(next);
    }
  }
  std::ranges::stable_sort(units, std::ranges::greater(), unit_tiles);
  for (AttentionUnit& unit : units) {
    if (unit.num_keys <= kUnitKeys) continue;
    unit.first_tile = static_cast<std::int32_t>(made.num_tiles);
    made.num_tiles += tiles_of(unit.num_queries, kUnitQueries);
  }
  return made;
}

}  // namespace packtrain

#include "models/ops/delta_rule/chunk_table.h"

#include <algorithm>
#include <functional>

#include "models/ops/delta_rule/delta_rule.h"

namespace packtrain {

DeltaRuleTable delta_rule_table(std::span<const std::int32_t> boundaries) {
  constexpr auto kRows = static_cast<std::int32_t>(kDeltaRuleChunk);
  DeltaRuleTable table;
  std::int32_t num_slots = 0;
  for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
    const std::int32_t begin = boundaries[s];
    const std::int32_t end = boundaries[s + 1];
    if (begin == end) continue;
    table.sequences.push_back(
        {static_cast<std::int32_t>(table.chunks.size()), (end - begin + kRows - 1) / kRows});
    for (std::int32_t row = begin; row < end; row += kRows) {
      const bool is_last = end - row <= kRows;
      table.chunks.push_back({row, std::min(kRows, end - row), row == begin ? -1 : num_slots - 1,
                              is_last ? -1 : num_slots});
      if (!is_last) ++num_slots;
    }
  }
  table.num_slots = num_slots;
  std::ranges::stable_sort(table.sequences, std::ranges::greater(), &DeltaRuleSequence::num_chunks);
  return table;
}

}  // namespace packtrain

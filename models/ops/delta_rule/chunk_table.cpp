#include "models/ops/delta_rule/chunk_table.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "models/ops/delta_rule/delta_rule.h"

namespace packtrain {
namespace {

constexpr auto kRowsOfChunk = static_cast<std::int32_t>(kDeltaRuleChunk);
constexpr int kMaxGroups = 64;

std::int32_t chunks_of_rows(std::int32_t num_rows) {
  return (num_rows + kRowsOfChunk - 1) / kRowsOfChunk;
}

// Time of a chunk for a block of threads, in some unit.
double step_time(int columns) {
  return columns == 32 ? 10 : columns == 64 ? 13 : 20;
}

struct RowsOfSequence {
  std::int32_t begin;
  std::int32_t end;
  std::int32_t group = 0;
  std::int32_t num_chunks() const { return chunks_of_rows(end - begin); }
};

std::vector<RowsOfSequence> rows_of_sequences(std::span<const std::int32_t> boundaries) {
  std::vector<RowsOfSequence> sequences;
  for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
    if (boundaries[s] < boundaries[s + 1]) {
      sequences.push_back({boundaries[s], boundaries[s + 1]});
    }
  }
  return sequences;
}

// Sorts by group.
void assign_groups(std::vector<RowsOfSequence>& sequences, int num_groups) {
  std::ranges::stable_sort(sequences, std::ranges::greater(), &RowsOfSequence::num_chunks);
  std::vector<std::int64_t> loads(static_cast<std::size_t>(num_groups), 0);
  for (RowsOfSequence& sequence : sequences) {
    const auto least = std::ranges::min_element(loads);
    sequence.group = static_cast<std::int32_t>(least - loads.begin());
    *least += sequence.num_chunks();
  }
  std::ranges::stable_sort(sequences, std::ranges::less(), &RowsOfSequence::group);
}

void append_chunks(const RowsOfSequence& rows, DeltaRuleTable& table) {
  table.sequences.push_back({static_cast<std::int32_t>(table.chunks.size()), rows.num_chunks()});
  for (std::int32_t row = rows.begin; row < rows.end; row += kRowsOfChunk) {
    const auto slot = static_cast<std::int32_t>(table.num_slots);
    const bool is_last = rows.end - row <= kRowsOfChunk;
    table.chunks.push_back({row, std::min(kRowsOfChunk, rows.end - row),
                            row == rows.begin ? -1 : slot - 1, is_last ? -1 : slot});
    if (!is_last) ++table.num_slots;
  }
}

}  // namespace

std::vector<std::int32_t> delta_rule_sequence_chunks(std::span<const std::int32_t> boundaries) {
  std::vector<std::int32_t> counts;
  for (const RowsOfSequence& rows : rows_of_sequences(boundaries)) {
    counts.push_back(rows.num_chunks());
  }
  return counts;
}

DeltaRuleDivision divide_delta_rule(std::span<const std::int32_t> sequence_chunks,
                                    const DeltaRuleWork& work) {
  if (sequence_chunks.empty()) return {32, 1};
  const auto total = std::reduce(sequence_chunks.begin(), sequence_chunks.end(), std::int64_t{0});
  const std::int64_t longest = *std::ranges::max_element(sequence_chunks);
  const auto most = std::min<std::int64_t>(kMaxGroups, std::ssize(sequence_chunks));
  DeltaRuleDivision best;
  double best_time = std::numeric_limits<double>::infinity();
  for (int columns = 32; columns <= work.max_columns; columns *= 2) {
    const std::int64_t tiles = (work.value_dim + columns - 1) / columns;
    for (int groups = 1; groups <= most; ++groups) {
      const std::int64_t blocks = tiles * work.num_heads * groups;
      const std::int64_t waves = (blocks + work.num_multiprocessors - 1) / work.num_multiprocessors;
      const std::int64_t chunks = std::max(longest, (total + groups - 1) / groups);
      const double time = static_cast<double>(waves * chunks) * step_time(columns);
      if (time < best_time) {
        best_time = time;
        best = {columns, groups};
      }
    }
  }
  return best;
}

DeltaRuleTable delta_rule_table(std::span<const std::int32_t> boundaries, int num_groups) {
  DeltaRuleTable table;
  std::vector<RowsOfSequence> sequences = rows_of_sequences(boundaries);
  assign_groups(sequences, num_groups);
  std::int32_t group = 0;
  for (const RowsOfSequence& rows : sequences) {
    for (; group <= rows.group; ++group) {
      table.group_begins.push_back(static_cast<std::int32_t>(table.chunks.size()));
    }
    append_chunks(rows, table);
  }
  for (; group <= num_groups; ++group) {
    table.group_begins.push_back(static_cast<std::int32_t>(table.chunks.size()));
  }
  return table;
}

}  // namespace packtrain

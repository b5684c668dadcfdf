// The chunks of all sequences, as the kernels of the gated delta rule read them. Blocks of threads
// divide them by groups of sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/ops/delta_rule/delta_rule_launch.h"

namespace packtrain {

struct DeltaRuleTable {
  std::vector<DeltaRuleChunkRows> chunks;    // a group after another, its sequences one by one
  std::vector<DeltaRuleSequence> sequences;  // without empty ones, in the order of the chunks
  std::vector<std::int32_t> group_begins;    // chunks, [groups + 1]
  std::int64_t num_slots = 0;                // boundaries between chunks of a sequence
};

// Work that a recurrence divides over the multiprocessors of a GPU.
struct DeltaRuleWork {
  std::int64_t num_heads = 0;
  std::int64_t value_dim = 0;
  std::int64_t num_multiprocessors = 0;
  int max_columns = 0;  // of a block of threads: 64 or 128
};

struct DeltaRuleDivision {
  int columns = 0;  // of the state, of a block of threads: 32, 64 or 128
  int groups = 1;   // of sequences
};

// Chooses the division of least estimated time. `sequence_chunks` has the number of chunks of each
// sequence. A block of threads has one group, one head and `columns` of the state.
DeltaRuleDivision divide_delta_rule(std::span<const std::int32_t> sequence_chunks,
                                    const DeltaRuleWork& work);

// `boundaries` are those of delta_rule.h. Each sequence goes to the group with the fewest chunks,
// the longest sequence first.
DeltaRuleTable delta_rule_table(std::span<const std::int32_t> boundaries, int num_groups);

// The number of chunks of each sequence that is not empty.
std::vector<std::int32_t> delta_rule_sequence_chunks(std::span<const std::int32_t> boundaries);

}  // namespace packtrain

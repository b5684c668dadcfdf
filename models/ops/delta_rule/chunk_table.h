// The chunks of all sequences, as the kernels of the gated delta rule read them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/ops/delta_rule/delta_rule_launch.h"

namespace packtrain {

struct DeltaRuleTable {
  std::vector<DeltaRuleChunkRows> chunks;    // in the order of rows
  std::vector<DeltaRuleSequence> sequences;  // without empty ones, the longest ones first
  std::int64_t num_slots = 0;                // boundaries between chunks of a sequence
};

// `boundaries` are those of delta_rule.h.
DeltaRuleTable delta_rule_table(std::span<const std::int32_t> boundaries);

}  // namespace packtrain

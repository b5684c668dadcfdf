// Units of work of the kernels for short sequences. A block of threads has one unit and one key
// head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/ops/attention/short/launch.h"

namespace packtrain {

struct AttentionUnits {
  std::vector<AttentionUnit> units;          // those with most work first
  std::vector<std::int32_t> long_sequences;  // of more than the limit, for another kernel
  std::int64_t num_tiles = 0;                // of dq in the workspace, for each query head
};

// Tiles of queries, of each block of keys. The time of a unit is proportional to it.
std::int64_t unit_tiles(const AttentionUnit& unit);

// `first_queries` and `first_keys` are boundaries of the sequences: one more than there are, the
// last are numbers of rows. Sequences of more than `max_keys` keys are `long_sequences`.
AttentionUnits attention_units(std::span<const std::int32_t> first_queries,
                               std::span<const std::int32_t> first_keys, std::int64_t max_keys);

}  // namespace packtrain

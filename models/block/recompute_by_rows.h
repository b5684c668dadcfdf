// The recompute policies of a block, by the rows of a micro-batch.
#pragma once

#include <cstdint>
#include <vector>

#include "models/block/operator_tape.h"

namespace packtrain {

struct RecomputeByRows {
  // NOLINTNEXTLINE(google-explicit-constructor): one policy is that of all micro-batches.
  RecomputeByRows(RecomputePolicy all) : largest(all) {}

  struct Smaller {
    std::int64_t max_rows;
    RecomputePolicy policy;
  };

  RecomputePolicy largest;
  std::vector<Smaller> smaller = {};  // ascending by max_rows

  const RecomputePolicy& of(std::int64_t num_rows) const {
    for (const Smaller& one : smaller) {
      if (num_rows <= one.max_rows) return one.policy;
    }
    return largest;
  }
};

}  // namespace packtrain

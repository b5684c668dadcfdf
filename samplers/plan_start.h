// Where a plan begins that goes on from another plan of the same examples.
#pragma once

#include <cstdint>
#include <vector>

namespace packtrain {

struct PlanStart {
  std::int64_t step = 0;   // the first global step that it has
  std::int64_t epoch = 0;  // which that step is of
  // [examples of the store] of that epoch: trained before. Empty: none.
  std::vector<bool> trained;
  // Counts of that epoch, of the plan that went before.
  std::int64_t num_trained = 0;   // as in `trained`
  std::int64_t num_selected = 0;  // examples of an epoch
  // Of which steps before have trained a part: not among the trained ones.
  std::int64_t num_cut = 0;

  bool is_trained(std::int64_t example) const {
    return !trained.empty() && trained[static_cast<std::size_t>(example)];
  }
};

}  // namespace packtrain

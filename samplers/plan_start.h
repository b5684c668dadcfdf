// The start of a plan that continues another plan of the same examples.
#pragma once

#include <cstdint>
#include <vector>

namespace packtrain {

struct PlanStart {
  std::int64_t step = 0;   // the first global step of this plan
  std::int64_t epoch = 0;  // of that step
  // [examples of the store] True for those that the epoch has already trained. Empty: none.
  std::vector<bool> trained;
  // Counts of that epoch, from the previous plan.
  std::int64_t num_trained = 0;   // as in `trained`
  std::int64_t num_selected = 0;  // examples of an epoch
  // Examples that earlier steps trained in part. They are not in `trained`.
  std::int64_t num_cut = 0;

  bool is_trained(std::int64_t example) const {
    return !trained.empty() && trained[static_cast<std::size_t>(example)];
  }
};

}  // namespace packtrain

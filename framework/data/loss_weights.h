// Weights of a store's examples in the loss, relative to each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace packtrain {

// Runs of consecutive examples with the same weight, 16 bytes a run. Only ratios matter: the loss
// is divided by the sum of the weights of a step.
class LossWeights {
 public:
  struct Run {
    std::int64_t first_example = 0;  // the run ends where the next one begins
    double weight = 1.0;             // > 0
  };

  LossWeights() = default;  // every example has weight 1
  // `runs` are ascending. The first one begins at example 0.
  explicit LossWeights(std::vector<Run> runs) : runs_(std::move(runs)) {}

  bool are_all_one() const { return runs_.empty(); }
  std::span<const Run> runs() const { return runs_; }
  double of(std::int64_t example) const {
    if (runs_.empty()) return 1.0;
    const auto after = std::ranges::upper_bound(runs_, example, {}, &Run::first_example);
    return std::prev(after)->weight;
  }

 private:
  std::vector<Run> runs_;
};

}  // namespace packtrain

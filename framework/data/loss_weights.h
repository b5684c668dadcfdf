// What the examples of a store weigh in the loss, beside each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace packtrain {

// Runs of examples of the same weight: 16 bytes a run, nothing an example. Only ratios matter: the
// loss is divided by the weights of what a step trains.
class LossWeights {
 public:
  struct Run {
    std::int64_t first_example = 0;  // the run ends where the next one begins
    double weight = 1.0;             // > 0
  };

  LossWeights() = default;  // every example weighs 1
  // `runs`: ascending, the first one from example 0 on.
  explicit LossWeights(std::vector<Run> runs) : runs_(std::move(runs)) {}

  bool are_all_one() const { return runs_.empty(); }
  double of(std::int64_t example) const {
    if (runs_.empty()) return 1.0;
    const auto after = std::ranges::upper_bound(runs_, example, {}, &Run::first_example);
    return std::prev(after)->weight;
  }

 private:
  std::vector<Run> runs_;
};

}  // namespace packtrain

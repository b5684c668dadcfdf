// The lowest validation losses of a run: which checkpoints are worth keeping for them.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace packtrain {

class BestLosses {
 public:
  // Knows `count` of them; `so_far`: those of the run before it was resumed, ascending.
  BestLosses(int count, std::vector<double> so_far);

  // Whether the weights after `step` steps are among the best. What is not finite is not.
  bool add(std::int64_t step, double loss);
  // Of the weights after `step` steps, where they were the last to be evaluated.
  std::optional<double> after(std::int64_t step) const;
  const std::vector<double>& lowest() const { return lowest_; }  // ascending

 private:
  std::size_t count_;
  std::vector<double> lowest_;
  std::optional<std::pair<std::int64_t, double>> latest_;
};

}  // namespace packtrain

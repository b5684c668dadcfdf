// The lowest validation losses of a run, which decide the checkpoints to keep.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace packtrain {

class BestLosses {
 public:
  // Keeps the `count` lowest. `so_far`: those of the run before it was resumed, ascending.
  BestLosses(int count, std::vector<double> so_far);

  // Adds a loss. True when the weights after `step` steps are among the best. Ignores non-finite
  // losses.
  bool add(std::int64_t step, double loss);
  // Loss of the weights after `step` steps, if they were evaluated last.
  std::optional<double> after(std::int64_t step) const;
  const std::vector<double>& lowest() const { return lowest_; }  // ascending

 private:
  std::size_t count_;
  std::vector<double> lowest_;
  std::optional<std::pair<std::int64_t, double>> latest_;
};

}  // namespace packtrain

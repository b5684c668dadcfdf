// The sum of squares of a step's gradient. Most of it is computed while the last reductions are in
// flight and the compute stream is idle.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "parallel/sharding/gradient_storage.h"
#include "parallel/sharding/schedule.h"

namespace packtrain {

// The number of the first of a step's last reductions, after which no compute is left to hide them.
// The schedule's size where there are too few.
std::size_t first_late_reduction(const Schedule& schedule);

class GradientSquares {
 public:
  explicit GradientSquares(const GradientStorage& gradients) : gradients_(gradients) {}

  // Adds the squares of all elements except those that reductions from number `first_late` on still
  // write. These are the gradient's beginning, because the units reduced last are the model's first
  // ones. Both functions run on the compute stream.
  void add_early(const Schedule& schedule, std::size_t first_late);
  // Returns partial sums over the whole gradient, float32 [n], and clears them.
  at::Tensor take();
  void discard() { early_ = at::Tensor(); }

 private:
  const GradientStorage& gradients_;
  at::Tensor early_;  // of the elements from early_begin_ on; undefined if none
  std::int64_t early_begin_ = 0;
};

}  // namespace packtrain

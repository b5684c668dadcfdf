// The sum of squares of a step's gradient, most of it made while the last reductions are still
// under way and the device has nothing else to do.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "parallel/sharding/schedule.h"
#include "parallel/sharding/storage.h"

namespace packtrain {

// The number of the first of a step's last reductions, behind which there is no work to hide them;
// the schedule's size where there are too few.
std::size_t first_late_reduction(const Schedule& schedule);

class GradientSquares {
 public:
  explicit GradientSquares(const ShardedStorage& storage) : storage_(storage) {}

  // On the compute stream, both.
  // All but what the reductions from number `first_late` on still write: the gradient's end, since
  // the units reduced last are the model's first ones.
  void add_early(const Schedule& schedule, std::size_t first_late);
  // Partial sums over the whole gradient: float32 [n]. Forgets what was added.
  at::Tensor take();
  void discard() { early_ = at::Tensor(); }

 private:
  const ShardedStorage& storage_;
  at::Tensor early_;  // of the elements from early_begin_ on; undefined for none
  std::int64_t early_begin_ = 0;
};

}  // namespace packtrain

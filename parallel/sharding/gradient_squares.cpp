#include "parallel/sharding/gradient_squares.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>

#include "models/ops/gradient_norm/gradient_norm.h"

namespace packtrain {

std::size_t first_late_reduction(const Schedule& schedule) {
  int num_left = 2;  // those of the first block and of the one after it
  for (std::size_t a = schedule.size(); a > 0; --a) {
    if (schedule[a - 1].kind == ActionKind::kReduce && --num_left == 0) return a - 1;
  }
  return schedule.size();
}

void GradientSquares::add_early(const Schedule& schedule, std::size_t first_late) {
  const at::Tensor& gradient = gradients_.sum();
  early_begin_ = 0;
  for (std::size_t a = first_late; a < schedule.size(); ++a) {
    if (schedule[a].kind != ActionKind::kReduce) continue;
    const at::Tensor late = gradients_.shard(schedule[a].unit);
    const std::int64_t end = late.storage_offset() + late.numel() - gradient.storage_offset();
    early_begin_ = std::max(early_begin_, end);
  }
  if (early_begin_ < gradient.numel())
    early_ = squared_norm_partials(gradient.slice(0, early_begin_));
}

at::Tensor GradientSquares::take() {
  const at::Tensor& gradient = gradients_.sum();
  if (!early_.defined()) return squared_norm_partials(gradient);
  const at::Tensor rest = squared_norm_partials(gradient.narrow(0, 0, early_begin_));
  return at::cat({std::exchange(early_, at::Tensor()), rest});
}

}  // namespace packtrain

#include "models/objectives/objective.h"

#include <ATen/ops/empty.h>

namespace packtrain {

at::Tensor Objective::sums(const DeviceBatch& /*batch*/, const at::Tensor& row_losses) const {
  return at::empty({0}, row_losses.options().dtype(at::kDouble));
}

}  // namespace packtrain

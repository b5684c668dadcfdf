#include "models/ops/experts/slot_sum.h"

#include <ATen/ops/zeros.h>

#include "models/ops/experts/slot_sum_cuda.h"

namespace packtrain {

at::Tensor slot_sum(const at::Tensor& values, const at::Tensor& places, const at::Tensor& weights,
                    const at::Tensor& addend) {
  if (values.is_cuda()) return slot_sum_cuda(values, places, weights, addend);
  at::Tensor sum = at::zeros({places.size(0), values.size(1)}, values.options().dtype(at::kFloat));
  for (std::int64_t s = 0; s < places.size(1); ++s) {
    at::Tensor part = values.index_select(0, places.select(1, s)).to(at::kFloat);
    if (weights.defined()) part.mul_(weights.narrow(1, s, 1));
    sum.add_(part);
  }
  if (addend.defined()) sum.add_(addend);
  return sum.to(values.scalar_type());
}

}  // namespace packtrain

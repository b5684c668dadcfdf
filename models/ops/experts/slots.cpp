#include "models/ops/experts/slots.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>

#include "models/ops/experts/slots_cuda.h"

namespace packtrain {
namespace {

at::Tensor places_or_own(const at::Tensor& places, std::int64_t num_rows) {
  return places.defined() ? places : at::arange(num_rows, at::kInt).unsqueeze(1);
}

}  // namespace

at::Tensor slot_sum(const at::Tensor& values, const at::Tensor& places, const at::Tensor& weights,
                    const at::Tensor& addend) {
  if (values.is_cuda()) return slot_sum_cuda(values, places, weights, addend);
  const at::Tensor from = places_or_own(places, values.size(0));
  at::Tensor sum = at::zeros({from.size(0), values.size(1)}, values.options().dtype(at::kFloat));
  for (std::int64_t s = 0; s < from.size(1); ++s) {
    at::Tensor part = values.index_select(0, from.select(1, s)).to(at::kFloat);
    if (weights.defined()) part.mul_(weights.narrow(1, s, 1));
    sum.add_(part);
  }
  if (addend.defined()) sum.add_(addend);
  return sum.to(values.scalar_type());
}

at::Tensor slot_spread(const at::Tensor& rows, const at::Tensor& places,
                       const at::Tensor& weights) {
  if (rows.is_cuda()) return slot_spread_cuda(rows, places, weights);
  const at::Tensor to = places_or_own(places, rows.size(0));
  at::Tensor values = at::empty({to.numel(), rows.size(1)}, rows.options());
  for (std::int64_t s = 0; s < to.size(1); ++s) {
    const at::Tensor part = weights.defined() ? at::mul(rows, weights.narrow(1, s, 1)) : rows;
    values.index_copy_(0, to.select(1, s).to(at::kLong), part.to(rows.scalar_type()));
  }
  return values;
}

at::Tensor slot_dot(const at::Tensor& a, const at::Tensor& b, const at::Tensor& places,
                    const at::Tensor& divisors) {
  if (a.is_cuda()) return slot_dot_cuda(a, b, places, divisors);
  const at::Tensor from = places_or_own(places, a.size(0));
  const at::Tensor wide = a.to(at::kFloat);
  const at::Tensor products = b.defined() ? at::mul(wide, b) : wide;
  const at::Tensor dots =
      products.sum(/*dim=*/1).index_select(0, from.reshape(-1)).view(from.sizes());
  return divisors.defined() ? dots.div_(divisors).masked_fill_(at::eq(divisors, 0), 0) : dots;
}

}  // namespace packtrain

#include "models/ops/experts/permute.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>

namespace packtrain {
namespace {

at::Tensor places_or_own(const at::Tensor& permuted_rows, std::int64_t num_rows) {
  return permuted_rows.defined() ? permuted_rows : at::arange(num_rows, at::kInt).unsqueeze(1);
}

}  // namespace

at::Tensor unpermute_sum(const at::Tensor& values, const at::Tensor& permuted_rows,
                         const at::Tensor& weights, const at::Tensor& addend) {
  if (values.is_cuda()) return unpermute_sum_cuda(values, permuted_rows, weights, addend);
  const at::Tensor from = places_or_own(permuted_rows, values.size(0));
  at::Tensor sum = at::zeros({from.size(0), values.size(1)}, values.options().dtype(at::kFloat));
  for (std::int64_t s = 0; s < from.size(1); ++s) {
    at::Tensor part = values.index_select(0, from.select(1, s)).to(at::kFloat);
    if (weights.defined()) part.mul_(weights.narrow(1, s, 1));
    sum.add_(part);
  }
  if (addend.defined()) sum.add_(addend);
  return sum.to(values.scalar_type());
}

at::Tensor permute_rows(const at::Tensor& rows, const at::Tensor& permuted_rows,
                        const at::Tensor& weights) {
  if (rows.is_cuda()) return permute_rows_cuda(rows, permuted_rows, weights);
  const at::Tensor to = places_or_own(permuted_rows, rows.size(0));
  at::Tensor values = at::empty({to.numel(), rows.size(1)}, rows.options());
  for (std::int64_t s = 0; s < to.size(1); ++s) {
    const at::Tensor part = weights.defined() ? at::mul(rows, weights.narrow(1, s, 1)) : rows;
    values.index_copy_(0, to.select(1, s).to(at::kLong), part.to(rows.scalar_type()));
  }
  return values;
}

at::Tensor grad_routing_weight(const at::Tensor& a, const at::Tensor& b,
                               const at::Tensor& permuted_rows, const at::Tensor& divisors) {
  if (a.is_cuda()) return grad_routing_weight_cuda(a, b, permuted_rows, divisors);
  const at::Tensor from = places_or_own(permuted_rows, a.size(0));
  const at::Tensor wide = a.to(at::kFloat);
  const at::Tensor products = b.defined() ? at::mul(wide, b) : wide;
  const at::Tensor dots =
      products.sum(/*dim=*/1).index_select(0, from.reshape(-1)).view(from.sizes());
  return divisors.defined() ? dots.div_(divisors).masked_fill_(at::eq(divisors, 0), 0) : dots;
}

}  // namespace packtrain

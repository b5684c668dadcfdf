#include "models/ops/experts/expert_order.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>

#include <tuple>

#include "models/ops/experts/expert_order_cuda.h"

namespace packtrain {

ExpertOrder order_by_expert(const at::Tensor& experts, std::int64_t num_experts) {
  if (experts.is_cuda()) return order_by_expert_cuda(experts, num_experts);
  const at::Tensor assigned = experts.reshape(-1).to(at::kShort);  // two digits of a radix sort
  const auto [sorted, from] = at::sort(assigned, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const at::Tensor place = at::arange(assigned.size(0), from.options());
  at::Tensor places = at::empty_like(from);
  places.scatter_(0, from, place);
  const at::Tensor all = at::arange(num_experts, sorted.options());
  ExpertOrder order;
  order.places = places.to(at::kInt).view(experts.sizes());
  order.ends = at::searchsorted(sorted, all, /*out_int32=*/true, /*right=*/true);
  return order;
}

at::Tensor experts_of(const ExpertOrder& order) {
  const at::Tensor place = at::arange(order.places.numel(), order.ends.options());
  return at::searchsorted(order.ends, place, /*out_int32=*/true, /*right=*/true);
}

void count_by_expert(const at::Tensor& experts, const at::Tensor& row_counts,
                     const at::Tensor& counts) {
  if (experts.is_cuda()) {
    count_by_expert_cuda(experts, row_counts, counts);
    return;
  }
  const at::Tensor each = row_counts.defined()
                              ? row_counts.reshape({-1, 1}).expand_as(experts).reshape(-1)
                              : at::ones({experts.numel()}, counts.options());
  counts.index_add_(0, experts.reshape(-1), each);
}

}  // namespace packtrain

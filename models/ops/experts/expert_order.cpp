#include "models/ops/experts/expert_order.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>

#include <tuple>

namespace packtrain {

ExpertOrder order_by_expert(const at::Tensor& experts, std::int64_t num_experts) {
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

}  // namespace packtrain

#include "models/ops/experts/token_permutation.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>

#include <tuple>

namespace packtrain {

TokenPermutation sort_tokens_by_expert(const at::Tensor& experts, std::int64_t num_experts) {
  if (experts.is_cuda()) return sort_tokens_by_expert_cuda(experts, num_experts);
  const at::Tensor assigned = experts.reshape(-1).to(at::kShort);  // a radix sort of two digits
  const auto [sorted, from] = at::sort(assigned, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const at::Tensor place = at::arange(assigned.size(0), from.options());
  at::Tensor permuted_rows = at::empty_like(from);
  permuted_rows.scatter_(0, from, place);
  const at::Tensor all = at::arange(num_experts, sorted.options());
  TokenPermutation order;
  order.permuted_rows = permuted_rows.to(at::kInt).view(experts.sizes());
  order.ends = at::searchsorted(sorted, all, /*out_int32=*/true, /*right=*/true);
  return order;
}

at::Tensor experts_of(const TokenPermutation& order) {
  const at::Tensor place = at::arange(order.permuted_rows.numel(), order.ends.options());
  return at::searchsorted(order.ends, place, /*out_int32=*/true, /*right=*/true);
}

void count_tokens_per_expert(const at::Tensor& experts, const at::Tensor& row_counts,
                             const at::Tensor& counts) {
  if (experts.is_cuda()) {
    count_tokens_per_expert_cuda(experts, row_counts, counts);
    return;
  }
  const at::Tensor each = row_counts.defined()
                              ? row_counts.reshape({-1, 1}).expand_as(experts).reshape(-1)
                              : at::ones({experts.numel()}, counts.options());
  counts.index_add_(0, experts.reshape(-1), each);
}

}  // namespace packtrain
